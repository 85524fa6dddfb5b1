"""Agents of other frameworks, as published, with `toolyard mcp` attached over stdio and a scripted model behind them.

A call that fails is no end of the run: the model reads what happened and what to do next, and goes on.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pytest

from tests.e2e.published import python_server
from toolyard.testing.mock_model import Call, Request, Say, Step, serve_model

AGENTS = pathlib.Path(__file__).parent / "agents"
RUN_SECONDS = 120
ANSWER = "The file is missing."
ENDS: dict[str, Step] = {
    "langgraph": Say(ANSWER),
    "openai-agents": Say(ANSWER),
    "pydantic-ai": Say(ANSWER),
    "smolagents": Call("final_answer", {"answer": ANSWER}),
}
CALLS = (
    Call("Read", {"file_path": "missing.txt"}),
    Call("LS", {"path": "/etc"}),
    Call("Bash", {"command": "echo the output; exit 3", "timeout": 60_000}),
)
SOMETHING = {"string": "", "integer": 1, "boolean": False, "array": []}


class ScriptedModel:
    """Makes the calls one after the other, then ends. It gives every argument: smolagents takes none for optional."""

    def __init__(self, end: Step) -> None:
        self._steps = iter((*CALLS, end))

    def __call__(self, request: Request) -> Step:
        step = next(self._steps)
        if step not in CALLS:
            return step
        properties = request.schemas[step.tool].schema["properties"]
        others = {name: SOMETHING[schema["type"]] for name, schema in properties.items()}
        return Call(step.tool, {**others, **step.arguments})


def run_agent(framework: str, url: str, command: list[str], home: pathlib.Path) -> subprocess.CompletedProcess[str]:
    program = AGENTS / f"{framework.replace('-', '_')}_agent.py"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "NO_PROXY": "127.0.0.1,localhost",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    words = [python_server(framework, "python"), str(program), url, json.dumps(command)]
    return subprocess.run(
        words, env=environment, cwd=home, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )


@pytest.mark.parametrize("framework", ENDS)
def test_the_model_reads_why_a_call_failed_and_the_run_goes_on(framework, yard):
    with serve_model(ScriptedModel(ENDS[framework])) as server:
        ended = run_agent(framework, server.openai, yard.command(), yard.home)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().endswith(ANSWER)
    # How results are put to the model differs: as results, as JSON in a text, as words of the user.
    missing, outside, failed = (json.dumps(request.body["messages"]) for request in server.requests[1:])
    assert "List the folder to see what is there." in missing
    assert f"Use a path under {yard.workspace}." in outside
    assert "the output" in failed
    assert re.search(r"(?i)exit.code\W+3\b", failed)
