"""Which tools touch files, whoever's they are, and who is told."""

import time

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.tools.resources import RESOURCE_TOOLS
from toolyard.workspace.file_tool_detector import FileOperation, FilesystemToolDetector, OperationOutcome

PATH = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
NO_PATH = {"type": "object", "properties": {"title": {"type": "string"}}}
NOT_ABOUT_FILES = {"search_tools"}


@pytest.fixture
def detector():
    return FilesystemToolDetector()


@pytest.mark.parametrize("tool", tools_of(Toolset.ALL).values(), ids=lambda tool: tool.name)
def test_every_tool_we_serve_is_known_for_what_it_does(detector, tool):
    assert detector.changes_files(tool.name) == (not tool.read_only)
    assert detector.is_filesystem_operation(tool.name) == (tool.name not in NOT_ABOUT_FILES)


def test_hidden_tools_only_read():
    assert all(tool.read_only for tool in RESOURCE_TOOLS.values())


@pytest.mark.parametrize("prefix", ["", "mcp__filesystem__", "filesystem.", "filesystem__", "fs/", "tools:"])
def test_the_reference_servers_tools_are_known_under_any_prefix(detector, prefix):
    assert detector.is_filesystem_operation(f"{prefix}read_file")
    assert not detector.changes_files(f"{prefix}read_file")
    for name in ("write_file", "edit_file", "create_directory", "move_file"):
        assert detector.changes_files(f"{prefix}{name}")


@pytest.mark.parametrize(
    "name", ["mcp__github__create_issue", "send", "", "__", "mcp__filesystem__", "overwrite_filed"]
)
def test_a_tool_that_nobody_described_is_not_about_files(detector, name):
    assert not detector.is_filesystem_operation(name)


@pytest.mark.parametrize(
    ("name", "schema", "annotations", "touches", "changes"),
    [
        ("mcp__x__save_report", PATH, {}, True, True),
        ("mcp__x__saveReport", PATH, {}, True, True),
        ("mcp__x__view_report", PATH, {}, True, False),
        ("mcp__x__save_report", PATH, {"readOnlyHint": True}, True, False),
        ("mcp__x__view_report", PATH, {"readOnlyHint": False}, True, True),
        ("mcp__x__commit", NO_PATH, {"destructiveHint": True}, True, True),
        ("mcp__x__commit", NO_PATH, {}, False, False),
        ("mcp__x__write_file", {}, {"readOnlyHint": True}, True, True),
        ("mcp__x__put", {"properties": {"where": {"format": "path"}}}, {}, True, True),
        ("mcp__x__save", {"properties": {"outputDir": {}}}, {}, True, True),
        ("mcp__x__save", {"properties": {"profile": {}}}, {}, False, False),
        ("mcp__x__save", {"properties": ["path"]}, {"readOnlyHint": "no"}, False, False),
    ],
)
def test_of_other_tools_annotations_and_schema_speak(detector, name, schema, annotations, touches, changes):
    detector.learn(name, schema, annotations)
    assert (detector.is_filesystem_operation(name), detector.changes_files(name)) == (touches, changes)


def test_everybody_is_told_of_each_operation_whatever_becomes_of_the_others(detector):
    told = []

    def fails(*_):
        raise RuntimeError

    detector.register_callback(fails)
    detector.register_callback(told.append)
    detector.notify_filesystem_operation("mcp__filesystem__read_file", {"path": "a"}, paths=["/ws/a", "/ws/a"])
    detector.notify_filesystem_operation("mcp__github__create_issue", {"title": "a"})
    (operation,) = told
    assert operation == FileOperation(
        "mcp__filesystem__read_file", {"path": "a"}, paths=("/ws/a",), time_ns=operation.time_ns
    )


@pytest.mark.parametrize(
    "name",
    [
        *("mcp_toolyard_Write", "mcp__toolyard__Write", "toolyard_Write", "toolyard.Write", "mcp_ws_edit_file"),
        *("run_shell_command", "apply_patch", "delete_file", "replace", "write", "bash", "exec_command"),
        *("str_replace_based_edit_tool", "mcp_toolyard_execute_bash", "toolyard_write_file"),
        *("write_to_file", "replace_in_file", "execute_command"),  # Cline
        *("replace_string_in_file", "insert_edit_into_file", "run_in_terminal"),  # GitHub Copilot in VS Code
        *("replace_file_content", "run_command", "developer__text_editor", "multiedit", "delete_path"),
    ],
)
def test_the_spellings_of_clients_are_known_for_what_changes_files(detector, name):
    assert detector.changes_files(name)


@pytest.mark.parametrize("name", ["mcp_toolyard_Read", "toolyard_Read", "read", "grep_search", "mcp_ws_read_file"])
def test_the_spellings_of_clients_are_known_for_what_reads(detector, name):
    assert detector.is_filesystem_operation(name)
    assert not detector.changes_files(name)


@pytest.mark.parametrize("name", ["no_edit", "mcp_github_create_issue", "credit", "set_list"])
def test_a_name_that_only_ends_like_one_is_not_about_files(detector, name):
    assert not detector.is_filesystem_operation(name)


def test_an_orchestrator_hears_who_did_what_where(detector):
    told = []
    detector.register_orchestrator(lambda *about: told.append(about), agent_id="agent_a", workspace="/ws")
    detector.notify_filesystem_operation(
        "Write", {"file_path": "a"}, outcome=OperationOutcome.DENIED, paths=["/ws/a"], snapshot="s1"
    )
    ((event, said),) = told
    assert event == "filesystem_operation"
    assert 0 < said.pop("time") <= time.time()
    assert said == {
        "agent_id": "agent_a",
        "session": "",
        "tool_name": "Write",
        "workspace": "/ws",
        "operation_args": {"file_path": "a"},
        "outcome": "denied",
        "paths": ["/ws/a"],
        "changes_files": True,
        "snapshot": "s1",
    }
