"""The tools that run commands and code, under the names that clients know."""

from __future__ import annotations

from typing import Any

from toolyard.dispatch.tool import STRINGS, Tool, output_schema
from toolyard.tools.bash import (
    BashArguments,
    BashOutputArguments,
    CommandArguments,
    KillShellArguments,
    bash,
    bash_output,
    command_timeout,
    kill_shell,
)
from toolyard.tools.execute_python import PythonArguments, code_timeout, execute_python

_RUN_OUTPUT = output_schema(
    ("stdout", "stderr", "exit_code", "ending", "notes", "output_file", "folder", "shell_id"),
    stdout="string",
    stderr="string",
    exit_code="integer",
    ending="string",
    notes=STRINGS,
    sandbox="string",
    output_file="string",
    folder="string",
    shell_id="string",
)
_BASH_DESCRIPTION = (
    "Run a shell command in the workspace's sandbox. The working folder persists between calls; rg, ast-grep, git, "
    "python and coreutils are there; no network unless the user allowed hosts."
)


def _bash_tool(name: str, arguments: type[CommandArguments] = BashArguments) -> Tool[CommandArguments]:
    return Tool(
        name=name,
        description=_BASH_DESCRIPTION,
        arguments=arguments,
        output=_RUN_OUTPUT,
        run=bash,
        kind="execute",
        read_only=False,
        destructive=True,
        idempotent=False,
        max_seconds=command_timeout,
    )


BASH = _bash_tool("Bash")
EXECUTE_BASH = _bash_tool("execute_bash")
EXECUTE_BASH_FOREGROUND = _bash_tool("execute_bash", CommandArguments)
"""For clients that are not offered the tools for background commands."""
BASH_OUTPUT = Tool(
    name="BashOutput",
    description="Read what a background command printed since it was last read.",
    arguments=BashOutputArguments,
    output=output_schema(
        ("exit_code", "output_file"),
        stdout="string",
        stderr="string",
        running="boolean",
        exit_code="integer",
        output_file="string",
    ),
    run=bash_output,
    kind="read",
    idempotent=False,
)
KILL_SHELL = Tool(
    name="KillShell",
    description="End a background command.",
    arguments=KillShellArguments,
    output=output_schema(shell_id="string", killed="boolean"),
    run=kill_shell,
    kind="execute",
    read_only=False,
    destructive=True,
)
EXECUTE_PYTHON = Tool(
    name="execute_python",
    description=(
        "Run Python in the workspace's sandbox. Shows what is printed, the value of the last expression, and figures."
    ),
    arguments=PythonArguments,
    output=output_schema(
        ("stderr", "value", "error", "ending", "notes", "images", "sandbox", "output_file"),
        stdout="string",
        stderr="string",
        value={"type": ["string", "null"]},
        error={"type": ["string", "null"]},
        exit_code="integer",
        ending="string",
        notes=STRINGS,
        images="integer",
        sandbox="string",
        output_file="string",
    ),
    run=execute_python,
    kind="execute",
    read_only=False,
    destructive=True,
    idempotent=False,
    max_seconds=code_timeout,
)

EXECUTION_TOOLS: list[Tool[Any]] = [EXECUTE_PYTHON, EXECUTE_BASH, BASH_OUTPUT, KILL_SHELL]
