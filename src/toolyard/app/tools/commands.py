"""Bash: named here so that clients find it; it refuses until there is a sandbox to run commands in."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolyard.app.gate import Gate
from toolyard.app.tool import Arguments, Tool, output_schema
from toolyard.core.calls import Result
from toolyard.core.errors import SecurityError

_LONGEST_MS = 600_000


class BashArguments(Arguments):
    command: Annotated[str, Field(min_length=1)]
    timeout: Annotated[int, Field(description="Milliseconds", ge=1, le=_LONGEST_MS)] = 120_000
    description: Annotated[str, Field(description="What it does, in a few words")] = ""
    run_in_background: bool = False


def bash(arguments: BashArguments, gate: Gate) -> Result:
    gate.command(arguments.command)
    raise SecurityError(
        "Commands are not run: this version of Toolyard has no sandbox to run them in.",
        hint="Use Read, Write, Edit, Grep, Glob and LS.",
    )


BASH = Tool(
    name="Bash",
    description="Run a shell command in the workspace's sandbox (not in this version: it refuses).",
    arguments=BashArguments,
    output=output_schema(stdout="string", stderr="string", exit_code="integer"),
    run=bash,
    kind="execute",
    read_only=False,
    destructive=True,
    idempotent=False,
)
