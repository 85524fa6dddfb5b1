"""A pattern that matches no tool is told, with what was probably meant; one that may yet match is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from toolyard.cli.common.pattern_checks import KnownToolNames, unmatched_patterns
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.server_registry import resolve_servers
from toolyard.config.settings import Settings

from .conftest import Attached

KNOWN = {"my-server": ("list-all", "delete_one"), "time": ("get_current_time", "convert_time")}
GROUPS = {"shop": ("price_of",)}


def idle(section: dict[str, Any], unheard: tuple[str, ...] = (), **rest: Any) -> list[tuple[str, str, str]]:
    names = (*KNOWN, *unheard)
    entries = [{"name": name, "command": "x", **section.pop(name, {})} for name in names]
    config = Config.model_validate({"toolyard": {"available_mcp_servers": entries, **section}, **rest})
    resolved = resolve_servers(config, Settings("", "", "", ""))
    found = unmatched_patterns(config, resolved, KnownToolNames.of(resolved, KNOWN, GROUPS))
    return [(each.where, each.pattern, each.hint) for each in found]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("time.get_curent_time", 'Did you mean "time.get_current_time"?'),
        ("tmie.*", 'Did you mean "time.*"?'),
        ("mcp__time__convert", 'Did you mean "mcp__time__convert_time"?'),
        ("time", 'Did you mean "time.*"?'),
        ("delete_onee", 'Did you mean "my-server.delete_one"?'),
        ("shop.prise_of", 'Did you mean "shop.price_of"?'),
        ("my_server.qqqqqq", "my-server has delete_one, list-all."),
        ("zzzzzz.*", "The servers are my-server, shop, time."),
        ("*.drop_*", "Keep it if it is meant for future tools."),
    ],
)
def test_what_was_meant_is_guessed(pattern: str, hint: str) -> None:
    assert idle({"tool_limits": {pattern: {"ask": True}}}) == [("toolyard.tool_limits", pattern, hint)]


@pytest.mark.parametrize(
    "pattern", ["time.*", "my_server.list_all", "mcp__time", "*.delete_*", "convert_time", "shop.price_of", "*"]
)
def test_what_matches_is_not_told(pattern: str) -> None:
    agent = {"id": "a", "backend": {"allowed_tools": [pattern], "exclude_tools": [pattern]}}
    assert idle({"tool_limits": {pattern: {"ask": True}}}, agents=[agent]) == []


def test_every_list_of_the_configuration_is_looked_at() -> None:
    agents = [{"id": "a", "backend": {"allowed_tools": ["Bash", "Read", "time.x"], "exclude_tools": ["Bsh", "time"]}}]
    rules = {"deny": ["mcp__time__x", "Read(src/**)", "Bash", "shop.x"], "ask": ["mcp__time__*", "mcp__tmie"]}
    section = {"time": {"allowed_tools": ["convert_time", "conv"], "exclude_tools": ["list-all"]}}
    assert [(where, pattern) for where, pattern, _ in idle(section, agents=agents, permissions=rules)] == [
        ("allowed_tools of agent a", "time.x"),
        ("exclude_tools of agent a", "Bsh"),
        ("allowed_tools of server time", "conv"),
        ("exclude_tools of server time", "list-all"),
        ("permissions.ask", "mcp__tmie"),
        ("permissions.deny", "mcp__time__x"),
        ("permissions.deny", "shop.x"),
    ]


@pytest.mark.parametrize(
    "pattern", ["git-hub.create_issue", "git_hub.*", "create_issue", "*.create_*", "mcp__git-hub"]
)
def test_a_tool_of_a_server_that_nobody_could_ask_may_be_meant(pattern: str) -> None:
    assert idle({"tool_limits": {pattern: {"ask": True}}}, unheard=("git-hub",)) == []
    assert len(idle({"tool_limits": {pattern: {"ask": True}}})) == 1


def test_sync_and_doctor_tell_of_it(attached: Attached) -> None:
    attached.document["toolyard"]["tool_limits"] = {"my-server.ad": {"per_minute": 1}}
    told = {"where": "toolyard.tool_limits", "pattern": "my-server.ad", "hint": 'Did you mean "my-server.add"?'}
    assert attached.json("sync", "--dry-run")["warnings"] == [told]
    assert attached.json("sync")["warnings"] == [told]
    said = 'toolyard.tool_limits: "my-server.ad" matches no known tool.'
    assert f'! {said} Did you mean "my-server.add"?' in attached.run("sync")
    assert f"warn  patterns: {said}" in attached.run("doctor")
    attached.document["toolyard"]["tool_limits"] = {"my-server.add": {"per_minute": 1}}
    assert attached.json("sync")["warnings"] == []


def test_a_pattern_that_matches_nothing_is_told_as_it_was_written(tmp_path):
    file = tmp_path / "toolyard.yaml"
    file.write_text(
        'permissions: {deny: [Read, "mcp__${KEY}__*"]}\n'
        'agents: [{id: a, backend: {allowed_tools: ["${KEY}.y"], exclude_tools: ["x.${KEY}"]}}]\n'
    )
    config = load_config(str(file), env={"KEY": "super-secret"})

    found = unmatched_patterns(
        config, resolve_servers(config, Settings("", "", "", "")), KnownToolNames({}, {}, frozenset())
    )

    assert [each.pattern for each in found] == ["${KEY}.y", "x.${KEY}", "mcp__${KEY}__*"]
    assert "super-secret" not in repr(found)
