"""The sets of tools a client can be served."""

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.policy.rules import KNOWN_TOOLS

CLAUDE = ["Read", "Write", "Edit", "MultiEdit", "Bash", "Grep", "Glob", "LS"]


def test_the_claude_set_is_the_eight_tools_by_their_names():
    assert list(tools_of(Toolset.CLAUDE)) == CLAUDE


def test_the_reference_set_has_the_reference_servers_names():
    names = set(tools_of(Toolset.REFERENCE))

    assert {"read_file", "write_file", "edit_file", "list_directory", "create_directory", "move_file"} <= names
    assert not names & set(CLAUDE)


def test_all_is_both():
    both = {**tools_of(Toolset.CLAUDE), **tools_of(Toolset.REFERENCE)}

    assert list(tools_of(Toolset.ALL)) == list(both)


@pytest.mark.parametrize("tool", tools_of(Toolset.ALL).values(), ids=lambda tool: tool.name)
def test_every_tool_describes_itself_and_is_honest_about_what_it_changes(tool):
    assert tool.description
    assert tool.input_schema["type"] == tool.output["type"] == "object"
    assert set(tool.output["required"]) <= set(tool.output["properties"])
    assert tool.read_only == (tool.kind == "read")
    assert not (tool.read_only and tool.destructive)


def test_rules_know_every_tool_that_is_served():
    assert set(tools_of(Toolset.ALL)) == KNOWN_TOOLS
