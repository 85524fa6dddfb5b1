"""A driver for the CLI of `scripted_cli.py`, and what is needed to run it on a workspace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolyard.drivers.driver import LaunchSpec, OutputState, RunSpec
from toolyard.drivers.messages import (
    Finished,
    Message,
    ResultStatus,
    SessionStarted,
    TextDelta,
    Tokens,
    ToolCall,
    ToolResult,
    Usage,
)
from toolyard.drivers.run import CliRun
from toolyard.models.pricing import ModelRef

PROGRAM = pathlib.Path(__file__).with_name("scripted_cli.py")
KEY = "SCRIPTED_KEY"
OTHER_NAME = "yard_"
"""Before the name of a tool of ours that the CLI has one of its own for."""


class ScriptedReader:
    def __init__(self, run: str) -> None:
        self.state = OutputState()
        self._run = run

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        match record.get("kind"):
            case "tools":
                yield SessionStarted(self._run, "scripted", session=",".join(record["names"]))
            case "text":
                self.state.append_text(record["text"])
                yield TextDelta(record["text"])
            case "call":
                name = record["name"].removeprefix(OTHER_NAME)
                self.state.open_calls[record["id"]] = name
                yield ToolCall(record["id"], name, record["arguments"])
            case "result":
                self.state.open_calls.pop(record["id"])
                self.state.answered_calls += 1
                status = ResultStatus.OK if record["ok"] else ResultStatus.FAILED
                yield ToolResult(record["id"], status, record["text"])
            case "usage":
                self.state.model = record["model"]
                self.state.tokens = Tokens(record["input"], record["output"], record["cached"])
                yield Usage(self.state.tokens, record["cost"])
            case "error":
                self.state.error = record["text"]
            case "over":
                self.state.is_over = True


class ScriptedDriver:
    """Its prompt is the script."""

    name = program = "scripted"
    title = "Scripted CLI"
    package = "scripted-cli"
    minimum_version = ""
    keys = (KEY,)
    key_alternatives = ()
    works_without_key = True
    passed_variables = ()
    logins = ()
    builtins = frozenset({"Bash"})
    asks_first = True

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        files = {"settings/settings.json": json.dumps({"url": run.url, "bearer": "$TOOLYARD_RUN_TOKEN"})}
        return LaunchSpec(("-u", str(PROGRAM), run.url), {"SETTINGS": f"{run.folder}/settings"}, files, run.prompt)

    def reader(self, run: str, tools: Iterable[str]) -> ScriptedReader:
        del tools
        return ScriptedReader(run)

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        del variables
        return ModelRef("google", model)

    def shown_name(self, tool: str) -> str:
        return f"mcp_{self.served_name(tool)}"

    def served_name(self, tool: str) -> str:
        return OTHER_NAME + tool if tool in self.builtins else tool


def script(*steps: list) -> str:
    return json.dumps(steps)


def variables(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1", **more}


def processes_of_run(run: str) -> list[int]:
    """Processes that are alive and name the run in their environment."""
    mark, found = f"TOOLYARD_RUN={run}".encode(), []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            marked = mark in pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            state = pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            if marked and state not in {"Z", "X"}:
                found.append(int(name))
    return found


PYTHON = sys.executable


_SECONDS = 40


def messages_of(run: CliRun) -> list[Message]:
    """All that a run says. It ends once, and leaves no process behind."""

    async def listened():
        return [message async for message in run]

    told = asyncio.run(asyncio.wait_for(listened(), _SECONDS))
    assert [message for message in told if isinstance(message, Finished)] == told[-1:]
    assert processes_of_run(run.id) == []
    return told
