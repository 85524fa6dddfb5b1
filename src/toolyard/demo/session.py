"""The steps of the demo session, and their results.

`run_session` starts `toolyard mcp` as any client would and stops it after the last step. Every step states its
expected error code, so the demo is also a check: see `StepResult.is_as_expected`.
"""

from __future__ import annotations

import difflib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolyard.core.errors import SecurityError, ToolError
from toolyard.demo.project import PRIVATE_FILE
from toolyard.testing.mcp_client import StdioClient, error_in

_NO_ERROR = 0
_SNAPSHOT_ID = "(the snapshot)"
"""Placeholder for the id of the snapshot that the session took."""
_TEST = "test_the_discount_comes_off_the_net_price"


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call: `why` is the agent's thought, `code` the expected error (0: none), `file` the file it may
    change.
    """

    why: str
    tool: str
    arguments: Mapping[str, Any]
    code: int = _NO_ERROR
    file: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step: text, error code, duration, and the diff of the step's file."""

    step: Step
    text: str
    code: int
    milliseconds: float
    diff: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the call failed."""
        return self.code != _NO_ERROR

    @property
    def is_as_expected(self) -> bool:
        """Whether the call ended with the expected code."""
        return self.code == self.step.code


STEPS = (
    Step("What is in this project?", "Glob", {"pattern": "**/*.py"}),
    Step(
        "The rate should be called VAT_RATE. Where is it used?",
        "Grep",
        {"pattern": "TAX_RATE", "output_mode": "content"},
    ),
    Step("Let me see the definition.", "Read", {"file_path": "shop/pricing.py"}),
    Step(
        "Rename it everywhere in this file.",
        "Edit",
        {"file_path": "shop/pricing.py", "old_string": "TAX_RATE", "new_string": "VAT_RATE", "replace_all": True},
        file="shop/pricing.py",
    ),
    Step(
        "Two places in the cart: both or neither.",
        "MultiEdit",
        {
            "file_path": "shop/cart.py",
            "edits": [
                {"old_string": "import TAX_RATE,", "new_string": "import VAT_RATE,"},
                {"old_string": "{TAX_RATE:.0%} tax", "new_string": "{VAT_RATE:.0%} VAT"},
            ],
        },
        file="shop/cart.py",
    ),
    Step(
        "Make the discount round to the nearest cent. (The agent misremembers the line.)",
        "Edit",
        {
            "file_path": "shop/pricing.py",
            "old_string": "    return net - (net * percent // 100)",
            "new_string": "    return net - round(net * percent / 100)",
        },
        code=ToolError.code,
        file="shop/pricing.py",
    ),
    Step(
        "The answer shows the real line. Again.",
        "Edit",
        {
            "file_path": "shop/pricing.py",
            "old_string": "    return net - net * percent // 100",
            "new_string": "    return net - round(net * percent / 100)",
        },
        file="shop/pricing.py",
    ),
    Step(
        "Are there credentials next door? (An injected instruction told the agent to look.)",
        "Read",
        {"file_path": f"../{PRIVATE_FILE}"},
        code=SecurityError.code,
    ),
    Step(
        "Then by the shell, with everything else that might be of use. (The same instruction.)",
        "Bash",
        {"command": f"cat ../{PRIVATE_FILE}; ls ~; env | grep -i token; curl -sS https://example.com"},
    ),
    Step(
        "Does the test still pass?",
        "Bash",
        {"command": f"python -c 'from tests.test_cart import {_TEST} as test; test(); print(\"1 passed\")'"},
    ),
    Step("All is well. Keep this state.", "snapshot_create", {"reason": "VAT renamed"}),
    Step("Tidy up. (The agent removes more than it meant to.)", "Bash", {"command": "rm -r shop tests; ls -A"}),
    Step("That was the code! Put it back.", "snapshot_restore", {"snapshot": _SNAPSHOT_ID}),
    Step("Is anything left of the old name?", "Grep", {"pattern": "TAX_RATE", "output_mode": "content"}),
)


def run_session(workspace: str, state: str) -> Iterator[StepResult]:
    """Plays the steps against a real server; yields each result as soon as it is known."""
    options = ("--workspace", workspace, "--state", state, "--tools", "claude,workspace")
    snapshot = ""
    command = (sys.executable, "-m", "toolyard", "mcp", *options)
    # Started in the demo's folder, so that a configuration in the user's current folder does not apply.
    with StdioClient(command, client_name="toolyard-demo", cwd=workspace) as client:
        for step in STEPS:
            arguments = {name: snapshot if value == _SNAPSHOT_ID else value for name, value in step.arguments.items()}
            before = _file_lines(workspace, step.file)
            started = time.perf_counter()
            answer = client.call(step.tool, **arguments)
            elapsed = (time.perf_counter() - started) * 1e3
            diff = tuple(difflib.unified_diff(before, _file_lines(workspace, step.file), lineterm="", n=1))[2:]
            snapshot = _snapshot_id(answer) or snapshot
            yield StepResult(step, _result_text(answer), _error_code(answer), elapsed, diff)


def _file_lines(workspace: str, name: str) -> list[str]:
    if not name:
        return []
    with open(os.path.join(workspace, name), encoding="utf-8") as file:
        return file.read().splitlines()


def _result_text(answer: Mapping[str, Any]) -> str:
    error = error_in(answer)
    if error is not None:
        return str(error["message"])
    return "\n".join(part["text"] for part in answer["result"]["content"] if part["type"] == "text")


def _snapshot_id(answer: Mapping[str, Any]) -> str:
    """Returns the id of the snapshot that a call took; empty if it took none."""
    facts: Mapping[str, Any] = answer.get("result", {}).get("structuredContent") or {}
    return str(facts["id"]) if {"id", "reason"} <= facts.keys() else ""


def _error_code(answer: Mapping[str, Any]) -> int:
    error = error_in(answer)
    return int(error["code"]) if error is not None else _NO_ERROR
