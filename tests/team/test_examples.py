"""Configurations as people have them already, run as they are written against models on the loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_source_documents import FILESYSTEM, FIRST, MAPPED, UNIVERSAL
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError
from toolyard.team.events import EndReason, Notice, RunFinished, RunStarted, TeamEvent, ToolReturned
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun
from toolyard.testing.mock_model import Call, ModelServer, Say, ScriptLike, Step, serve_model

UPSTREAM = [sys.executable, "-m", "toolyard.testing.mock_mcp_server"]
_UNSANDBOXED = "Commands of gemini_filesystem_agent: Not sandboxed: bypassPermissions runs commands as the user."
EIGHT = {"Read", "Write", "Edit", "MultiEdit", "Bash", "Grep", "Glob", "LS"}
ESSENTIAL = {
    *("read_file", "write_file", "list_directory", "create_directory", "move_file", "get_file_info"),
    *("execute_python", "execute_bash", "search_tools"),
}
WITHOUT_FILES = """
agents:
  - id: "gemini2.5flash_mcp_weather"
    backend:
      type: "gemini"
      model: "gemini-2.5-flash"
      # No cwd/permission_mode = no filesystem access (current behavior)
      mcp_servers:
        - name: "weather"
          type: "stdio"
          command: "npx"
          args: ["-y", "@fak111/weather-mcp"]
"""
PLAIN = """
# Gemini version (NEW)
agents:
  - id: "gemini_agent"
    backend:
      type: "gemini"
      cwd: "shared_workspace"
      permission_mode: "bypassPermissions"
"""
IN_CONTEXT = """
massgen:
  execution_mode: "context_based"

agents:
  - id: "agent"
    backend:
      type: "openai"
      model: "gpt-4o"
      mcp_servers:
        # Can only attach 5-10 before context overflows
        - filesystem
        - github
        - google-drive
        - slack
        - postgres
        # Adding more would exceed context limits!
"""
MEMORIES = """
agents:
  - id: "agent_a"
    memory:
      allow_read_from: ["agent_b", "agent_c"]  # Can read these agents' memories
      allow_write_to: []                       # Cannot write to others' memories

  - id: "agent_b"
    memory:
      allow_read_from: ["agent_a"]
      allow_write_to: []

  - id: "agent_c"
"""
LENT = """
orchestrator:
  limits: {rounds: 1}
  snapshot_storage: "snapshots"
  agent_temporary_workspace: "temp_workspaces"
  context_paths:
    - path: "data"
      permission: "read"
    - path: "results"
      permission: "write"
      protected_paths: ["keep.md"]
"""
DISCOVERS = 'rg "numbers" servers/ -i -l; cat servers/salesforce/add.py'
CALLS = """
from servers.salesforce import add
from servers.slack import echo

q4_data = await add(1200, 34)
sent = await echo(f"Q4: {q4_data['sum']}")
print(sent.text)
"""


@dataclass
class Example:
    """A machine whose user has described some servers, and a run of one configuration there."""

    folder: Path
    server: ModelServer
    events: list[TeamEvent] = field(default_factory=list)

    def knows(self, *names: str) -> None:
        """Describe servers in the file of the user's."""
        described = self.folder / "home" / ".config" / "toolyard" / "servers.yaml"
        described.parent.mkdir(parents=True)
        described.write_text("".join(f"{name}: {{command: {UPSTREAM[0]}, args: {UPSTREAM[1:]}}}\n" for name in names))

    def run(self, text: str, task: str = "Do it.") -> RunFinished:
        config = self.folder / "example.yaml"
        config.write_text(text)
        variables = {"HOME": str(self.folder / "home"), "PATH": os.environ["PATH"], **self.server.environment}
        options = RunOptions(
            load_config(str(config), env={}), task, settings=Settings.from_environment(variables), variables=variables
        )
        return asyncio.run(TeamRun(options, self.events.append).go())

    @property
    def offered(self) -> set[str]:
        return set(self.server.requests[0].tools)

    @property
    def shown(self) -> Sequence[str]:
        return self.server.requests[-1].results

    @property
    def noticed(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    def heard(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def example(tmp_path):
    from contextlib import ExitStack

    with ExitStack() as servers:

        def made(*steps: Step | Callable[..., Step]) -> Example:
            scripted: ScriptLike = list(steps)  # type: ignore[arg-type]
            return Example(tmp_path.resolve(), servers.enter_context(serve_model(scripted)))

        yield made


def test_two_lines_give_a_gemini_agent_files_and_a_server_that_cannot_be_started_costs_nothing(
    example, monkeypatch
) -> None:
    work = example(Call("Write", {"file_path": "notes.md", "content": "x"}), Say("Written."))
    monkeypatch.setenv("PATH", "/nowhere")  # there is no npx

    finished = work.run(MAPPED)

    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "Written.")
    assert (work.folder / "gemini_workspace_shared" / "notes.md").read_text() == "x"
    assert work.offered >= EIGHT
    assert not any("weather" in name for name in work.offered)
    assert work.server.requests[0].system.startswith("You are an AI assistant with filesystem access.")
    unsandboxed, told = work.noticed
    assert unsandboxed == _UNSANDBOXED
    assert told.startswith("weather: ")
    assert "npx" in told


def test_the_weather_of_a_server_that_does_start_is_told_to_the_model(example) -> None:
    work = example(
        Call("weather__add", {"a": 20, "b": 1.5}), Call("Bash", {"command": "echo 21.5 > weather.txt"}), Say("Warm.")
    )
    here = f'command: "{UPSTREAM[0]}"\n          args: {UPSTREAM[1:]}'

    finished = work.run(MAPPED.replace('command: "npx"\n          args: ["-y", "@fak111/weather-mcp"]', here))

    assert finished.text == "Warm."
    assert work.noticed == [_UNSANDBOXED]
    assert work.offered > EIGHT
    assert "21.5" in work.shown[0]
    assert (work.folder / "gemini_workspace_shared" / "weather.txt").read_text() == "21.5\n"


def test_an_agent_without_a_folder_has_its_servers_and_no_files(example) -> None:
    work = example(Call("weather__echo", {"text": "sunny"}), Say("It is sunny."))
    here = f'command: "{UPSTREAM[0]}"\n          args: {UPSTREAM[1:]}'

    finished = work.run(WITHOUT_FILES.replace('command: "npx"\n          args: ["-y", "@fak111/weather-mcp"]', here))

    assert (finished.text, finished.snapshot) == ("It is sunny.", "")
    assert not work.offered & EIGHT
    assert "sunny" in work.shown[0]


def test_a_model_that_is_not_named_is_the_usual_one(example) -> None:
    work = example(Call("LS", {"path": "."}), Say("Nothing here."))

    finished = work.run(PLAIN)

    assert finished.text == "Nothing here."
    assert (work.folder / "shared_workspace").is_dir()
    (started,) = work.heard(RunStarted)
    assert (started.agents[0].model, started.agents[0].mode) == ("gemini-2.5-flash", "bypassPermissions")


def test_tools_of_named_servers_are_found_as_files_and_called_from_code(example) -> None:
    work = example(
        Call("execute_bash", {"command": DISCOVERS}),
        Call("execute_python", {"code": CALLS}),
        Call("write_file", {"path": "summary.md", "content": "Q4: 1234"}),
        Say("Sent."),
    )
    work.knows("slack", "salesforce")

    finished = work.run(FIRST, "Analyze our Q4 sales and send a summary to the team")

    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "Sent.")
    assert work.offered == ESSENTIAL
    found, called, _ = work.shown
    assert "servers/slack/add.py" in found
    assert "async def add(" in found
    assert "Q4: 1234" in called
    assert [each.ok for each in work.heard(ToolReturned)] == [True] * 3
    (started,) = work.heard(RunStarted)
    assert (Path(started.agents[0].workspace) / "summary.md").read_text() == "Q4: 1234"
    told = " ".join(work.noticed)
    assert all(name in told for name in ("google-drive", "gmail", "github", "multimodal.video_analysis"))


def test_one_configuration_with_every_server_serves_every_task(example) -> None:
    """As written its code runs in Docker; here it is the sandbox of the machine."""
    code = CALLS.replace("salesforce", "github")
    work = example(Call("execute_python", {"code": code}), Say("Sent."))
    work.knows("slack", "github")

    finished = work.run(UNIVERSAL.replace('mode: "docker"', 'mode: "bubblewrap"'))

    assert finished.text == "Sent."
    assert work.offered == ESSENTIAL
    assert "Q4: 1234" in work.shown[0]


def test_servers_by_name_are_all_in_context(example) -> None:
    work = example(Call("github__add", {"a": 2, "b": 3}), Call("slack__echo", {"text": "hello"}), Say("Said."))
    work.knows("github", "slack")

    finished = work.run(IN_CONTEXT)

    assert finished.text == "Said."
    assert {name.split("_")[0] for name in work.offered} == {"github", "slack"}
    assert "5" in work.shown[0]
    assert "hello" in work.shown[1]
    told = " ".join(work.noticed)
    assert all(name in told for name in ("filesystem", "google-drive", "postgres"))


def test_without_an_engine_a_configuration_that_wants_docker_says_so_before_anything_begins(
    example, monkeypatch
) -> None:
    work = example(Say("Never said."))
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ConfigError, match="neither docker nor podman was found") as caught:
        work.run(UNIVERSAL)

    assert "`execution_mode: context_based`" in caught.value.hint
    assert (work.events, work.server.requests) == ([], [])


def test_a_file_server_of_ones_own_stands_beside_our_tools(example) -> None:
    work = example(
        Call("filesystem__echo", {"text": "from the server"}),
        Call("weather__add", {"a": 1, "b": 2}),
        Call("Write", {"file_path": "a.txt", "content": "by our tool"}),
        Say("Both."),
    )
    work.knows("weather")
    theirs = FILESYSTEM.replace('"python"', f'"{UPSTREAM[0]}"').replace("filesystem_mcp_server", UPSTREAM[2])

    finished = work.run(theirs)

    assert finished.text == "Both."
    assert "from the server" in work.shown[0]
    assert "3" in work.shown[1]
    assert (work.folder / "gemini_workspace" / "a.txt").read_text() == "by our tool"


@pytest.mark.parametrize(
    ("chosen", "offered"),
    [
        (
            "{filesystem: [read_file, write_file, list_directory], code_execution: [execute_python]}",
            {"read_file", "write_file", "list_directory", "execute_python", "search_tools"},
        ),
        (
            '{filesystem: "*", code_execution: "*", web: [playwright_navigate]}',
            ESSENTIAL | {"edit_file", "search_files", "web__playwright_navigate"},
        ),
    ],
)
def test_the_tools_in_context_are_those_that_are_named(example, chosen: str, offered: set[str]) -> None:
    work = example(Say("Seen."))
    named = f"\nmassgen:\n  execution_mode: filesystem_first\n  in_context_tools: {chosen}\n"

    work.run(PLAIN + named + "  available_custom_tools: [web.playwright_navigate]\n")

    assert work.offered >= offered
    assert not work.offered & {"Read", "Write", "Edit"}
    assert len(work.offered) == len(offered) or "*" in chosen


def test_folders_of_the_orchestrator_are_lent_and_kept_where_it_says(example) -> None:
    work = example(
        Call("Read", {"file_path": "../data/facts.txt"}),
        Call("Write", {"file_path": "../data/facts.txt", "content": "x"}),
        Call("Write", {"file_path": "../results/new.md", "content": "new"}),
        Call("Write", {"file_path": "../results/keep.md", "content": "x"}),
        Call("Write", {"file_path": "mine.txt", "content": "mine"}),
        Say("Done."),
    )
    for name, text in (("data/facts.txt", "a fact"), ("results/keep.md", "kept")):
        (work.folder / name).parent.mkdir()
        (work.folder / name).write_text(text)

    second = "  - {id: other, backend: {type: claude, model: other}}\n"
    work.run(PLAIN.replace("bypassPermissions", "strict") + second + LENT)

    done = [each for each in work.heard(ToolReturned) if each.agent == "gemini_agent"]
    assert [each.ok for each in done] == [True, False, True, False, True]
    assert (work.folder / "results/new.md").read_text() == "new"
    assert (work.folder / "results/keep.md").read_text() == "kept"
    assert any((work.folder / "snapshots").iterdir())
    assert (work.folder / "temp_workspaces" / "gemini_agent" / "mine.txt").read_text() == "mine"


def test_agents_may_read_the_memory_of_those_that_they_name(example) -> None:
    """With the backends that stand elsewhere in the document."""
    looks = "cat $(dirname $(realpath servers))/agents/*/memory/learned_patterns.md"
    work = example(Call("execute_bash", {"command": looks}), Say("Seen."))
    for agent in ("agent_a", "agent_b", "agent_c"):
        memory = work.folder / "toolyard_workspace" / "agents" / agent / "memory"
        memory.mkdir(parents=True)
        (memory / "learned_patterns.md").write_text(f"what {agent} knows\n")
    text = MEMORIES
    for agent, kind in (("agent_a", "gemini"), ("agent_b", "claude"), ("agent_c", "openai")):
        text = text.replace(f'id: "{agent}"', f'id: "{agent}"\n    backend: {{type: {kind}, model: {agent}}}')

    work.run(text + "massgen: {execution_mode: filesystem_first}\norchestrator: {limits: {rounds: 1}}\n")

    seen = {each.agent: each.text for each in work.heard(ToolReturned)}
    known = {agent: {other for other in seen if f"what {other} knows" in text} for agent, text in seen.items()}
    assert known == {
        "agent_a": {"agent_a", "agent_b", "agent_c"},
        "agent_b": {"agent_a", "agent_b"},
        "agent_c": {"agent_c"},
    }
