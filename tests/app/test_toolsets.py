"""The sets of tools a client can be served."""

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.policy.rules import KNOWN_TOOLS

CLAUDE = [
    *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
]
CODE = ["search_tools", "execute_python", "execute_bash", "BashOutput", "KillShell", "Read", "Write", "Edit"]


def test_the_claude_set_has_claude_codes_names():
    assert list(tools_of(Toolset.CLAUDE)) == CLAUDE


def test_the_reference_set_has_the_reference_servers_names():
    names = set(tools_of(Toolset.REFERENCE))

    assert {"read_file", "write_file", "edit_file", "list_directory", "create_directory", "move_file"} <= names
    assert not names & set(CLAUDE)


def test_the_code_set_runs_code_and_reads_and_writes_what_it_needs():
    assert list(tools_of(Toolset.CODE)) == CODE


def test_all_is_every_set_without_a_tool_twice():
    every = tools_of((Toolset.CLAUDE, Toolset.REFERENCE, Toolset.CODE, Toolset.WORKSPACE))

    assert tools_of(Toolset.ALL) == every
    assert list(tools_of(Toolset.ALL)) == list(every)


def test_only_tools_that_run_code_say_how_long_a_call_may_take():
    timed = {name for name, tool in tools_of(Toolset.ALL).items() if tool.max_seconds is not None}

    assert timed == {"Bash", "execute_bash", "execute_python"}


@pytest.mark.parametrize("tool", tools_of(Toolset.ALL).values(), ids=lambda tool: tool.name)
def test_every_tool_describes_itself_and_is_honest_about_what_it_changes(tool):
    assert tool.description
    assert tool.input_schema["type"] == tool.output["type"] == "object"
    assert set(tool.output["required"]) <= set(tool.output["properties"])
    assert tool.read_only == (tool.kind == "read")
    assert not (tool.read_only and tool.destructive)


def test_the_minimal_set_finds_tools_and_runs_code():
    assert list(tools_of(Toolset.MINIMAL)) == ["search_tools", "execute_python"]


def test_rules_know_every_tool_that_is_served():
    assert set(tools_of(Toolset.ALL)) == KNOWN_TOOLS
