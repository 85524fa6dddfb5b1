"""Of several agents none is guessed: whose rights count is said, or nothing is called."""

from __future__ import annotations

import pytest

from .conftest import Attached


@pytest.fixture
def team(attached: Attached) -> Attached:
    attached.document["agents"] = [{"id": "clerk", "backend": {"allowed_tools": ["shop.*"]}}, {"id": "boss"}]
    return attached


@pytest.mark.parametrize(
    "words", [("mcp",), ("call", "shop.price_of"), ("exec", "-c", "1")], ids=lambda words: words[0]
)
def test_what_acts_as_an_agent_has_to_be_told_which(team: Attached, words: tuple[str, ...]) -> None:
    said = team.run(*words, code=2)
    assert "several agents are configured (clerk, boss)" in said
    assert "--agent clerk" in said


def test_what_only_looks_works_for_all_of_them(team: Attached) -> None:
    team.run("sync")
    assert "my-server.add" in team.run("search", "add two numbers")
    assert "denied to clerk" in team.run("tools", "show", "my-server.add")
    said = team.run("doctor")
    assert "permission mode of clerk: strict" in said
    assert "permission mode of boss: strict" in said


def test_the_agents_own_lists_hold_once_it_is_named(team: Attached) -> None:
    arguments = ("--args", '{"a": 1, "b": 2}')
    assert '"sum": 3' in team.run("call", "my-server.add", *arguments, "--agent", "boss")
    assert "Agent 'clerk' not authorized" in team.run(
        "call", "my-server.add", *arguments, "--agent", "clerk", code=126
    )


@pytest.mark.parametrize(
    "words", [("sync",), ("search", "x"), ("tools", "list"), ("audit",)], ids=lambda words: words[0]
)
def test_where_each_has_a_folder_and_none_is_shared_the_folder_is_not_guessed(
    team: Attached, words: tuple[str, ...]
) -> None:
    del team.document["toolyard"]["workspace"]
    for agent in team.document["agents"]:
        agent.setdefault("backend", {})["cwd"] = agent["id"]
    assert "their own folders" in team.run(*words, code=2)


def test_the_only_agent_is_meant_without_being_named(attached: Attached) -> None:
    attached.document["agents"] = [{"id": "clerk", "backend": {"allowed_tools": ["shop.*"]}}]
    assert '"result": 0.5' in attached.run("call", "shop.price_of", "--args", '{"part": "bolt"}')
    assert "Agent 'clerk' not authorized" in attached.run("call", "my-server", "env", code=126)
