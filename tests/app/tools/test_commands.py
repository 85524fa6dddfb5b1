"""Bash refuses, and the tools of the Claude set as a client sees them."""

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.core.errors import SecurityError, ValidationError
from toolyard.core.modes import PermissionMode

READS = {"read_only": True, "destructive": False, "idempotent": True}
CHANGES = {"read_only": False, "destructive": True, "idempotent": False}
ANNOTATIONS = {
    "Read": READS,
    "Write": {**CHANGES, "idempotent": True},
    "Edit": CHANGES,
    "MultiEdit": CHANGES,
    "Bash": CHANGES,
    "Grep": READS,
    "Glob": READS,
    "LS": READS,
}
REQUIRED = {
    "Read": ["file_path"],
    "Write": ["file_path", "content"],
    "Edit": ["file_path", "old_string", "new_string"],
    "MultiEdit": ["file_path", "edits"],
    "Bash": ["command"],
    "Grep": ["pattern"],
    "Glob": ["pattern"],
    "LS": [],
}


@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_bash_refuses_in_every_mode(open_bench, mode):
    async def yes(action, decision):
        return True

    bench = open_bench(mode)
    await bench.fails(SecurityError, "Bash", command="touch made", ask=yes)
    assert bench.names() == []


async def test_bash_says_what_to_use_instead(bench):
    error = await bench.fails(SecurityError, "Bash", command="ls")
    assert error.hint == "Use Read, Write, Edit, Grep, Glob and LS."


@pytest.mark.parametrize("arguments", [{}, {"command": ""}, {"command": 1}, {"command": "ls", "timeout": 0}])
async def test_bash_takes_a_command(bench, arguments):
    await bench.fails(ValidationError, "Bash", **arguments)


def test_the_eight_tools_carry_the_right_annotations():
    shown = {
        name: {"read_only": tool.read_only, "destructive": tool.destructive, "idempotent": tool.idempotent}
        for name, tool in tools_of(Toolset.CLAUDE).items()
    }
    assert shown == ANNOTATIONS


def test_the_eight_tools_require_what_claude_code_requires():
    shown = {name: tool.input_schema.get("required", []) for name, tool in tools_of(Toolset.CLAUDE).items()}
    assert shown == REQUIRED


@pytest.mark.parametrize("tool", tools_of(Toolset.ALL).values(), ids=lambda tool: tool.name)
def test_every_tool_describes_its_output_as_an_object(tool):
    assert tool.output["type"] == "object"
    assert set(tool.output["required"]) <= set(tool.output["properties"])


async def test_a_tool_that_does_not_exist_is_answered_with_the_nearest(bench):
    error = await bench.fails(ValidationError, "Reed")
    assert error.hint == "Did you mean Read?"
