"""Who may call what."""

from __future__ import annotations

import pytest

from toolyard.config import authorization
from toolyard.config.authorization import Authorization, ToolPatterns
from toolyard.config.loader import load_config
from toolyard.config.server_registry import resolve_servers
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError


@pytest.fixture
def load(tmp_path):
    def _load(text: str):
        path = tmp_path / "toolyard.yaml"
        path.write_text(text)
        return load_config(str(path), env={})

    return _load


TEAM = """
available_mcp_servers: [github, {name: slack, command: x, exclude_tools: ["delete_*"]}]
agents:
  - {id: open, backend: {}}
  - {id: own, backend: {mcp_servers: [github, {name: admin, command: y, allowed_tools: [list_users]}]}}
  - {id: every, backend: {mcp_servers: "*"}}
"""


def test_servers_of_the_configuration_are_for_everyone_and_those_of_an_agent_for_it_alone(load):
    config = load(TEAM)
    rights = {agent: Authorization.for_agent(config, agent) for agent in ("open", "own", "every")}
    use = {agent: [s for s in ("github", "slack", "admin") if each.may_use(s)] for agent, each in rights.items()}
    assert use == {"open": ["github", "slack"], "own": ["github", "admin"], "every": ["github", "slack", "admin"]}


def test_servers_from_files_are_for_everyone_too(load, tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x", "excludeTools": ["no"]}}}')
    config = load("toolyard: {server_files: [.mcp.json]}\nagents: [{id: p, backend: {mcp_servers: [a]}}, {id: q}]\n")
    resolved = resolve_servers(config, Settings.from_environment({"HOME": str(tmp_path)}))
    rights = Authorization.for_agent(config, "q", resolved)
    assert (rights.may_use("a"), rights.may_call("a", "yes"), rights.may_call("a", "no")) == (True, True, False)


def test_the_lists_of_a_servers_entry_count_for_every_agent(load):
    config = load(TEAM)
    assert Authorization.for_agent(config, "open").may_call("slack", "post")
    assert not Authorization.for_agent(config, "open").may_call("slack", "delete_channel")
    assert Authorization.for_agent(config, "own").may_call("admin", "list_users")
    assert not Authorization.for_agent(config, "own").may_call("admin", "delete_all_users")


def test_nobody_calls_a_server_that_is_not_theirs(load):
    assert not Authorization.for_agent(load(TEAM), "open").may_call("admin", "list_users")


def test_an_agent_nobody_knows_is_an_error_where_there_are_agents(load):
    with pytest.raises(ConfigError, match='Did you mean "open"'):
        Authorization.for_agent(load(TEAM), "opne")
    assert Authorization.for_agent(load("available_mcp_servers: [a]\n"), "anyone").may_call("a", "t")


def agent_with(load, lists: str) -> Authorization:
    return Authorization.for_agent(load(f"agents: [{{id: a, backend: {{{lists}}}}}]\n"), "a")


@pytest.mark.parametrize(
    "pattern",
    [
        *("my-server.list-all", "my-server/list-all", "mcp__my-server__list-all", "list-all", "my-server.*"),
        *("*.list-*", "mcp__my-server", "mcp__my-server__*", "list*", "*", "m?-server.list-all", "[m]y-server.*"),
        *("my_server.list_all", "my_server/list_all", "list_all", "mcp__my_server__list_all", "my_server.*"),
    ],
)
def test_every_spelling_allows_and_excludes_the_tool(load, pattern):
    assert agent_with(load, f"allowed_tools: ['{pattern}']").may_call("my-server", "list-all")
    assert not agent_with(load, f"exclude_tools: ['{pattern}']").may_call("my-server", "list-all")


@pytest.mark.parametrize("pattern", ["other.list-all", "list-al", "my-server", "mcp__other", "LIST-ALL", "server.*"])
def test_what_names_something_else_does_not_allow(load, pattern):
    assert not agent_with(load, f"allowed_tools: ['{pattern}']").may_call("my-server", "list-all")


def test_a_server_cannot_name_its_tool_into_the_rights_to_another(load):
    rights = agent_with(load, "allowed_tools: ['github.*', 'mcp__slack__*', 'a/*']")
    assert rights.may_call("github", "x")
    assert not rights.may_call("evil", "github.delete")
    assert not rights.may_call("evil", "mcp__slack__post")
    assert not rights.may_call("evil", "a/b")


def test_excluding_goes_before_allowing_and_a_servers_name_excludes_all_of_it(load):
    rights = agent_with(load, "allowed_tools: ['*'], exclude_tools: [github, '*.delete_*']")
    assert [rights.may_call(*call) for call in (("github", "x"), ("slack", "delete_x"), ("slack", "x"))] == [
        False,
        False,
        True,
    ]


def test_custom_tools_go_by_the_agents_lists_alone(load):
    config = load(
        "agents: [{id: a, backend: {mcp_servers: [github], allowed_tools: ['web.*'], exclude_tools: [web.post]}}]\n"
    )
    rights = Authorization.for_custom_tools(config, "a")
    assert [rights.may_call("web", "get"), rights.may_call("web", "post"), rights.may_call("db", "get")] == [
        True,
        False,
        False,
    ]


def test_patterns_tell_which_of_them_match():
    assert list(ToolPatterns(("github.*", "slack.*", "*.read")).matching_patterns("github", "read")) == [
        "github.*",
        "*.read",
    ]


def test_only_so_many_names_of_some_length_are_remembered():
    authorization._pattern_covers.cache_clear()
    patterns = ToolPatterns(("*delete*",))
    assert patterns.covers("s", "x" * 1_000 + "delete")
    assert authorization._pattern_covers.cache_info().currsize == 0
    for number in range(5_000):
        assert not patterns.covers("s", str(number))
    assert authorization._pattern_covers.cache_info().currsize == 4_096


def test_of_several_agents_none_that_is_not_named_may_call_anything(load):
    rights = Authorization.for_agent(load(TEAM), None)
    assert [server for server in ("github", "slack", "admin") if rights.may_use(server)] == []
    assert not rights.may_call("github", "list")
    assert not Authorization.for_custom_tools(load(TEAM), None).may_call("shop", "price_of")
    only = load("available_mcp_servers: [a]\nagents: [{id: one, backend: {allowed_tools: [a.x]}}]\n")
    assert Authorization.for_agent(only, None).may_call("a", "x")
    assert not Authorization.for_agent(only, None).may_call("a", "y")
    assert Authorization.for_agent(load("available_mcp_servers: [a]\n"), None).may_call("a", "x")
