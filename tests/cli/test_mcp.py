"""`toolyard mcp` as a client starts it."""

import os

import pytest
from click.testing import CliRunner

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.cli.common import serve
from toolyard.cli.main import toolyard
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode
from toolyard.transports.mcp import http, serve_stdio


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Runs the command with serving replaced by a note of what would be served."""
    notes = []

    def note(yard, token=None, address=None, listener=None, *, exits_after=False):
        assert not exits_after  # the process is the test's
        if listener is not None:
            listener.close()
        notes.append((yard.options, token, address))

    monkeypatch.setattr(serve_stdio, "serve_stdio", note)
    monkeypatch.setattr(http, "serve_http", note)
    (tmp_path / "ws").mkdir()

    def start(*arguments, env=None):
        common = ["mcp", "--workspace", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
        result = CliRunner().invoke(toolyard, [*common, *arguments], env={"TOOLYARD_TOKEN": None, **(env or {})})
        return result, notes

    return start


def test_the_options_reach_the_yard(served, tmp_path):
    result, notes = served("--permission-mode", "plan", "--tools", "reference", "--agent", "me")

    ((options, token, address),) = notes
    assert result.exit_code == 0, result.output
    assert (options.workspace, options.mode, options.toolset, options.agent, options.state_home) == (
        str(tmp_path / "ws"),
        PermissionMode.PLAN,
        Toolset.REFERENCE,
        "me",
        str(tmp_path / "state"),
    )
    assert (token, address) == (None, None)


def test_without_options_the_claude_tools_are_served_in_the_configured_mode(served):
    _, notes = served()

    ((options, _, _),) = notes
    assert (options.mode, options.toolset, options.agent) == (None, Toolset.CLAUDE, None)


def test_several_sets_of_tools_are_served_together(served):
    _, notes = served("--tools", "code, workspace,code")

    ((options, _, _),) = notes
    assert options.toolset == (Toolset.CODE, Toolset.WORKSPACE)


@pytest.mark.parametrize(
    ("named", "meant"), [("claud", "claude"), ("code,workspce", "workspace"), ("code,", "claude")]
)
def test_a_set_of_tools_that_is_none_is_answered_with_those_there_are(served, named, meant):
    result, notes = served("--tools", named)

    assert (result.exit_code, notes) == (2, [])
    assert meant in result.output


def test_http_takes_the_token_from_the_environment_and_does_not_print_it(served):
    result, notes = served("--http", "127.0.0.1:0", "--allow-host", "box", env={"TOOLYARD_TOKEN": "hush-hush"})

    ((_, token, address),) = notes
    assert (token, address) == ("hush-hush", http.ListenAddress("127.0.0.1", 0, ("box",)))
    assert "hush-hush" not in result.output
    assert "/mcp" in result.output


@pytest.mark.parametrize(("token", "is_told"), [("x" * 15, True), ("x" * 16, False)])
def test_http_warns_of_a_token_that_is_short_and_serves_all_the_same(served, token, is_told):
    result, notes = served("--http", "127.0.0.1:0", env={"TOOLYARD_TOKEN": token})
    assert (result.exit_code, [each[1] for each in notes]) == (0, [token])
    assert ("TOOLYARD_TOKEN has fewer than 16 characters" in result.stderr) is is_told
    assert token not in result.stderr


def test_http_without_a_token_prints_a_fresh_one_once(served):
    results = [served("--http", "127.0.0.1:0") for _ in range(2)]

    tokens = [token for _, token, _ in results[-1][1]]
    assert len(set(tokens)) == 2
    assert all(len(token) >= 40 for token in tokens)
    assert [result.output.count(token) for (result, _), token in zip(results, tokens, strict=True)] == [1, 1]


@pytest.mark.parametrize("address", ["", "8765", ":8765", "host:", "host:x", "host:65536", "host:-1", "host:\u00b2"])
def test_an_address_that_is_none_is_wrong_use(served, address):
    result, notes = served("--http", address)

    assert (result.exit_code, notes) == (2, [])
    assert "expected HOST:PORT" in result.output


@pytest.mark.parametrize(
    ("text", "parsed"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("box:65535", ("box", 65535))]
)
def test_addresses_of_both_families_are_read(text, parsed):
    assert serve._parse_address(None, None, text) == parsed


@pytest.mark.parametrize(
    "arguments", [("--permission-mode", "yolo"), ("--tools", "everything"), ("--no-such-option",)], ids=lambda a: a[0]
)
def test_unknown_choices_are_wrong_use(served, arguments):
    result, notes = served(*arguments)

    assert (result.exit_code, notes) == (2, [])


def test_a_broken_configuration_is_said_and_nothing_is_served(served, tmp_path):
    config = tmp_path / "broken.yaml"
    config.write_text("permisions: {}\n")

    result, notes = served("--config", str(config))

    assert isinstance(result.exception, ConfigError)
    assert "permissions" in str(result.exception)
    assert notes == []
    assert not os.path.exists(tmp_path / "state")


def served_names(yard_options):
    with Yard.open(yard_options) as yard:
        return set(yard.dispatch.tools)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ("{filesystem: [read_file]}", {"search_tools", "execute_python", "read_file"}),
        ("{code_execution: [execute_bash]}", {"search_tools", "execute_python", "execute_bash"}),
        ('{code_execution: "*"}', {"search_tools", "execute_python", "execute_bash"}),
    ],
)
def test_tools_in_context_stand_beside_the_minimal_set(served, tmp_path, chosen, names):
    (tmp_path / "ws" / "toolyard.yaml").write_text(f"toolyard: {{in_context_tools: {chosen}}}\n")

    result, notes = served("--tools", "minimal")

    ((options, _, _),) = notes
    assert result.exit_code == 0, result.output
    assert names <= served_names(options)
    assert "Read" not in served_names(options)


@pytest.mark.parametrize(
    ("tools", "beside"),
    [
        ("claude", {"Bash", "BashOutput", "KillShell"}),
        ("reference", set()),
        ("code", {"search_tools"}),
        ("minimal", {"search_tools", "execute_python"}),
        ("claude,reference", {"Bash", "BashOutput", "KillShell"}),
    ],
)
def test_tools_in_context_are_chosen_for_every_set(served, tmp_path, tools, beside):
    (tmp_path / "ws" / "toolyard.yaml").write_text("toolyard: {in_context_tools: {filesystem: [read_file]}}\n")

    result, notes = served("--tools", tools)

    ((options, _, _),) = notes
    assert result.exit_code == 0, result.output
    assert served_names(options) == {"read_file", *beside}


@pytest.mark.parametrize(
    ("tools", "has", "lacks"),
    [
        ("claude", "Read", "read_file"),
        ("reference", "read_file", "Read"),
        ("code", "read_file", "Read"),
        ("all", "read_file", "Read"),
        ("workspace", "read_file", "Read"),
    ],
)
def test_all_file_tools_are_served_under_one_family_of_names(served, tmp_path, tools, has, lacks):
    (tmp_path / "ws" / "toolyard.yaml").write_text('toolyard: {in_context_tools: {filesystem: "*"}}\n')

    _, notes = served("--tools", tools)

    names = served_names(notes[0][0])
    assert has in names
    assert lacks not in names
    assert ("snapshot_list" in names) == (tools in {"all", "workspace"})


@pytest.mark.parametrize(
    ("chosen", "is_told"), [("{filesystem: [read_file]}", True), ("{code_execution: [execute_python]}", False)]
)
def test_tools_that_are_found_and_cannot_be_called_are_told_of(served, tmp_path, chosen, is_told):
    (tmp_path / "ws" / "toolyard.yaml").write_text(f"toolyard: {{in_context_tools: {chosen}}}\n")

    result, _ = served("--tools", "code")

    assert ("tools that search_tools finds cannot be called from code" in result.output) == is_told


@pytest.mark.parametrize(
    "document",
    [
        '{"mcpServers": {"time": {"command": "x"}}}',
        '{"toolyard": {"available_mcp_servers": [{"name": "time", "command": "x"}]}}',
        '{"agents": [{"id": "a", "backend": {"mcp_servers": [{"name": "time", "command": "x"}]}}]}',
    ],
    ids=["a server file", "for everybody", "for an agent"],
)
def test_servers_that_the_set_does_not_reach_are_told_of(served, tmp_path, document):
    config = tmp_path / "named.json"
    config.write_text(document)

    for tools, is_told in (("claude", True), ("code", False)):
        result, _ = served("--config", str(config), "--tools", tools)
        assert ("--tools code does" in result.output) == is_told, result.output
