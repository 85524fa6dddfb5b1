"""Configurations as people have them already, with agents that are CLIs: run as they are written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.runs.backends import BACKENDS
from tests.e2e.scripted import ScriptedModel
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.team.events import EndReason, RunFinished, RunStarted, TeamEvent, ToolCalled, ToolReturned
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun
from toolyard.testing.mock_model import Call, Say, Step, serve_model

SECONDS = 240.0
UPSTREAM = [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]
CLAUDE_CODE = """
agent:
  backend:
    type: "claude_code"
    cwd: "claude_code_workspace"
    permission_mode: "bypassPermissions"
    # MCP servers are optional - filesystem tools are built-in
"""
NAMED = """
# Claude Code version (EXISTING) - identical structure
agent:
  id: "claude_code_agent"
  backend:
    type: "claude_code"
    cwd: "shared_workspace"
    permission_mode: "bypassPermissions"
"""
FILES_FIRST = """
agents:
  - id: "agent_a"
    backend: {{type: "{kind}", model: "{model}"}}
massgen:
  execution_mode: "filesystem_first"
  available_mcp_servers:
    - slack
    - salesforce
    - github
"""
WITH_SERVER = """
agents:
  - id: "agent_a"
    backend:
      type: "{kind}"
      model: "{model}"
      cwd: work
      permission_mode: strict
      mcp_servers: [weather]
"""
CALLS = """
from servers.salesforce import add
from servers.slack import echo

q4_data = await add(1200, 34)
sent = await echo(f"Q4: {q4_data['sum']}")
print(sent.text)
"""
KINDS = pytest.mark.parametrize("kind", [*BACKENDS])


@dataclass(frozen=True)
class Done:
    finished: RunFinished
    events: list[TeamEvent]
    model: ScriptedModel
    folder: Path

    def heard(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def run(island, user, tmp_path) -> Callable[..., Done]:
    """`run(text, kind, *steps, servers=...)`: the servers are those that the user has described."""

    def ran(text: str, kind: str, *steps: Step, servers: tuple[str, ...] = ()) -> Done:
        base = tmp_path.resolve()
        described = base / "home" / ".config" / "toolyard" / "servers.yaml"
        described.parent.mkdir(parents=True)
        described.write_text(
            "".join(f"{name}: {{command: {UPSTREAM[0]}, args: {UPSTREAM[1:]}}}\n" for name in servers)
        )
        (base / "example.yaml").write_text(text)
        model = ScriptedModel(steps, BACKENDS[kind].prefix)
        events: list[TeamEvent] = []

        async def work() -> RunFinished:
            with serve_model(model) as server:
                model.requests = server.all_requests
                variables = {**user, **server.environment, "HOME": str(base / "home")}
                settings = Settings.from_environment(variables)
                options = RunOptions(
                    load_config(str(base / "example.yaml"), env={}), "Do it.", settings=settings, variables=variables
                )
                return await asyncio.wait_for(TeamRun(options, events.append).go(), SECONDS)

        return Done(island.run(work(), SECONDS), events, model, base)

    return ran


@pytest.mark.parametrize(
    ("text", "folder", "agent"),
    [(CLAUDE_CODE, "claude_code_workspace", "agent"), (NAMED, "shared_workspace", "claude_code_agent")],
)
def test_a_claude_code_agent_works_in_its_folder(run, text: str, folder: str, agent: str) -> None:
    done = run(text, "claude_code", Call("Write", {"file_path": "a.txt", "content": "x"}), Say("Written."))

    assert (done.finished.ended, done.finished.winner, done.finished.text) == (EndReason.ANSWERED, agent, "Written.")
    assert (done.folder / folder / "a.txt").read_text() == "x"
    assert done.heard(RunStarted)[0].agents[0].mode == "bypassPermissions"


@KINDS
def test_a_cli_finds_tools_as_files_and_calls_them_from_code(run, kind: str) -> None:
    backend = BACKENDS[kind]
    done = run(
        FILES_FIRST.format(kind=kind, model=backend.model),
        kind,
        Call("execute_bash", {"command": "rg numbers servers/ -i -l"}),
        Call("execute_python", {"code": CALLS}),
        Call("write_file", {"path": "summary.md", "content": "Q4: 1234"}),
        Say("Sent."),
        servers=("slack", "salesforce"),
    )

    assert (done.finished.ended, done.finished.text) == (EndReason.ANSWERED, "Sent.")
    found, called, _ = done.model.words
    assert "servers/salesforce/add.py" in found
    assert "Q4: 1234" in called
    assert [each.tool for each in done.heard(ToolCalled)] == ["execute_bash", "execute_python", "write_file"]
    assert [each.ok for each in done.heard(ToolReturned)] == [True] * 3
    workspace = Path(done.heard(RunStarted)[0].agents[0].workspace)
    assert (workspace / "summary.md").read_text() == "Q4: 1234"
    assert "servers/INDEX.md" in str([request.body for request in done.model.requests])


@KINDS
def test_a_cli_has_the_tools_of_its_servers_beside_its_files(run, kind: str) -> None:
    done = run(
        WITH_SERVER.format(kind=kind, model=BACKENDS[kind].model),
        kind,
        Call("weather__echo", {"text": "sunny"}),
        Call("Write", {"file_path": "weather.txt", "content": "sunny"}),
        Say("It is sunny."),
        servers=("weather",),
    )

    assert done.finished.text == "It is sunny."
    assert "sunny" in done.model.words[0]
    assert [each.tool for each in done.heard(ToolCalled)] == ["weather__echo", "Write"]
    assert (done.folder / "work" / "weather.txt").read_text() == "sunny"
