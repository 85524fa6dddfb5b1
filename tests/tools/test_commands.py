"""The tools of the Claude set as a client sees them, and what their arguments may be."""

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.core.errors import UnknownToolError, ValidationError

READS = {"read_only": True, "destructive": False, "idempotent": True}
CHANGES = {"read_only": False, "destructive": True, "idempotent": False}
ANNOTATIONS = {
    "search_tools": {"read_only": True, "destructive": False, "idempotent": True},
    "Read": READS,
    "Write": {**CHANGES, "idempotent": True},
    "Edit": CHANGES,
    "MultiEdit": CHANGES,
    "NotebookEdit": CHANGES,
    "Bash": CHANGES,
    "BashOutput": {**READS, "idempotent": False},
    "KillShell": {**CHANGES, "idempotent": True},
    "Grep": READS,
    "Glob": READS,
    "LS": READS,
    "execute_bash": CHANGES,
    "execute_python": CHANGES,
}
REQUIRED = {
    "search_tools": ["query"],
    "Read": ["file_path"],
    "Write": ["file_path", "content"],
    "Edit": ["file_path", "old_string", "new_string"],
    "MultiEdit": ["file_path", "edits"],
    "NotebookEdit": ["notebook_path", "new_source"],
    "Bash": ["command"],
    "BashOutput": ["bash_id"],
    "KillShell": ["shell_id"],
    "Grep": ["pattern"],
    "Glob": ["pattern"],
    "LS": [],
    "execute_bash": ["command"],
    "execute_python": ["code"],
}
TOOLS = {**tools_of(Toolset.CLAUDE), **tools_of(Toolset.CODE)}


def test_the_tools_carry_the_right_annotations():
    shown = {
        name: {"read_only": tool.read_only, "destructive": tool.destructive, "idempotent": tool.idempotent}
        for name, tool in TOOLS.items()
    }
    assert shown == ANNOTATIONS


def test_the_tools_require_what_claude_code_requires():
    assert {name: tool.input_schema.get("required", []) for name, tool in TOOLS.items()} == REQUIRED


@pytest.mark.parametrize("tool", ["Bash", "execute_bash"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": ""},
        {"command": 1},
        {"command": "true", "timeout": 0},
        {"command": "true", "timeout": "5"},
        {"command": "true", "run_in_background": "yes"},
        {"command": "true", "cwd": "/"},
        {"command": "true\0"},
        {"command": "echo \ud800"},
        {"command": "#" * 200_001},
    ],
)
async def test_commands_are_held_against_their_schema(bench, tool, arguments):
    await bench.fails(ValidationError, tool, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": ""},
        {"code": b"1"},
        {"code": "1", "timeout": 0},
        {"code": "1", "session": 1},
        {"code": "1", "session": "s" * 101},
        {"code": "1", "reset": True},
        {"code": "1\0"},
        {"code": "'\ud800'"},
        {"code": "1", "session": "\ud800"},
        {"code": "#" * 1_000_001},
    ],
)
async def test_code_is_held_against_its_schema(bench, arguments):
    await bench.fails(ValidationError, "execute_python", **arguments)


@pytest.mark.parametrize(
    ("tool", "what"), [("Bash", "command"), ("execute_bash", "command"), ("execute_python", "code")]
)
async def test_a_timeout_longer_than_the_configuration_allows_is_refused_with_the_limit(open_bench, tool, what):
    bench = open_bench(toolyard={"code_execution": {"limits": {"most_seconds": 5}}})
    error = await bench.fails(ValidationError, tool, **{what: "1", "timeout": 5_001})
    assert "is more than 5,000 milliseconds" in error.message


@pytest.mark.parametrize("tool", tools_of(Toolset.ALL).values(), ids=lambda tool: tool.name)
def test_every_tool_describes_its_output_as_an_object(tool):
    assert tool.output["type"] == "object"
    assert set(tool.output["required"]) <= set(tool.output["properties"])


async def test_a_tool_that_does_not_exist_is_answered_with_the_nearest(bench):
    error = await bench.fails(UnknownToolError, "Reed")
    assert error.hint == "Did you mean Read?"
