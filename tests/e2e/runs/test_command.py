"""`toolyard run` as a process, with a team of two kinds: Claude Code and the Gemini API."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.drivers.trials import processes_with, until
from tests.e2e.runs.backends import BACKENDS
from tests.support.backend_suite.scenarios import FOLDER, PEER, TASK, TEAM, WORKER, Script, write_config
from toolyard.team.events import AgentStarted, Answered, EndReason, RunFinished, ToolReturned, from_json
from toolyard.testing.mock_model import FOREVER, Hang, Request, Say, Step, serve_model

TOOLYARD = pathlib.Path(sys.executable).with_name("toolyard")
CLAUDE = BACKENDS["claude_code"]
SECONDS = 240.0
TOGETHER = """
agents:
  - id: worker
    backend: {type: claude_code, model: MODEL, cwd: shared_workspace, permission_mode: bypassPermissions}
  - id: peer
    backend: {type: gemini, model: peer, cwd: shared_workspace, permission_mode: bypassPermissions}
"""


@dataclass(frozen=True)
class Over:
    """A command that is over."""

    code: int | None
    events: list[Any]
    said: str

    def told(self, kind: type, agent: str = "") -> list[Any]:
        return [event for event in self.events if isinstance(event, kind) and agent in {"", event.agent}]

    @property
    def finished(self) -> RunFinished:
        assert isinstance(self.events[-1], RunFinished), self.said
        return self.events[-1]


@dataclass
class Place:
    """A folder with a configuration, in which commands are run."""

    base: pathlib.Path
    user: dict[str, str]

    async def started(self, url: dict[str, str], *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(str(TOOLYARD), "run", *words),
            env={**self.user, **url, "XDG_STATE_HOME": str(self.base / "state")},
            cwd=self.base,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def ended(self, process: asyncio.subprocess.Process) -> Over:
        printed, said = await process.communicate()
        events = [from_json(json.loads(line)) for line in printed.splitlines()]
        return Over(process.returncode, events, said.decode())

    @property
    def left(self) -> list[object]:
        return [*processes_with(str(self.base)), *(self.base / "state").rglob("toolyard-drive-*")]


@pytest.fixture
def place(tmp_path, user) -> Place:
    return Place(tmp_path.resolve(), user)


def on(island, work: Coroutine[Any, Any, Any]) -> Any:
    return island.run(work, SECONDS)


def test_two_kinds_of_agents_share_files_end_to_end_and_the_winners_are_brought(island, place):
    config = write_config(CLAUDE, TEAM, str(place.base))
    (place.base / "out").mkdir()

    async def ran() -> Over:
        with serve_model(Script(CLAUDE, TEAM)) as server:
            words = (config, TASK, "--json", "--apply", "out")
            return await place.ended(await place.started(server.environment, *words))

    done = on(island, ran())

    assert done.code == 0, done.said
    ended = done.finished
    assert (ended.ended, ended.winner, ended.text) == (EndReason.CONSENSUS, PEER, "See theirs.txt.")
    assert ended.votes == {WORKER: PEER, PEER: PEER}
    read = {agent: [each.text for each in done.told(ToolReturned, agent) if each.round == 2] for agent in ended.votes}
    assert "made by the peer" in read[WORKER][0]
    assert "made by the worker" in read[PEER][0]
    assert (place.base / "out" / "theirs.txt").read_text() == "made by the peer\n"
    assert os.listdir(place.base / FOLDER) == ["mine.txt"]
    report = (pathlib.Path(ended.folder) / "report.md").read_text()
    assert all(word in report for word in (WORKER, PEER, "mine.txt", "theirs.txt"))
    assert place.left == []


def test_agents_of_two_kinds_may_work_in_one_folder(island, place):
    (place.base / "team.yaml").write_text(TOGETHER.replace("MODEL", CLAUDE.model))

    async def ran() -> Over:
        with serve_model(Script(CLAUDE, TEAM)) as server:
            return await place.ended(await place.started(server.environment, "team.yaml", TASK, "--json"))

    done = on(island, ran())

    assert done.code == 0, done.said
    assert done.finished.ended is EndReason.CONSENSUS
    found = {path.name: path.read_text() for path in (place.base / "shared_workspace").iterdir() if path.is_file()}
    assert found == {"mine.txt": "made by the worker\n", "theirs.txt": "made by the peer\n"}


def test_interrupted_while_a_cli_is_at_work_it_goes_on_with_what_is_missing(island, place):
    config = write_config(CLAUDE, TEAM, str(place.base))
    script, waits = Script(CLAUDE, TEAM), [True]

    def waiting(request: Request) -> Step:
        step = script(request)
        is_worker_voting = request.model == CLAUDE.model and isinstance(step, Say) and "VOTE" in step.text
        return Hang(times=FOREVER) if waits[0] and is_worker_voting else step

    async def ran() -> tuple[Over, list[object], Over]:
        with serve_model(waiting) as server:
            process = await place.started(server.environment, config, TASK, "--json")
            await until(lambda: server.hanging_requests)
            process.send_signal(signal.SIGINT)
            first, left = await place.ended(process), place.left
            waits[0] = False
            run = first.finished.run
            again = await place.started(server.environment, "--resume", run[:8], "--json")
            return first, left, await place.ended(again)

    first, left, second = on(island, ran())

    assert (first.code, first.finished.ended) == (130, EndReason.INTERRUPTED), first.said
    assert left == []
    assert (second.code, second.finished.ended, second.finished.run) == (0, EndReason.CONSENSUS, first.finished.run)
    assert second.finished.votes == {WORKER: PEER, PEER: PEER}
    assert second.told(Answered) == []
    assert {(each.agent, each.round) for each in second.told(AgentStarted)} <= {(WORKER, 2), (PEER, 2)}
    assert second.finished.spent.total > first.finished.spent.total
    assert place.left == []


def test_a_cli_that_is_not_installed_is_told_and_the_other_agent_goes_on(island, place):
    config = write_config(BACKENDS["opencode"], TEAM, str(place.base))
    place.user = {**place.user, "PATH": "/usr/bin:/bin"}

    async def ran() -> Over:
        with serve_model(Script(BACKENDS["opencode"], TEAM)) as server:
            return await place.ended(await place.started(server.environment, config, TASK, "--json"))

    done = on(island, ran())

    assert (done.code, done.finished.winner) == (0, PEER), done.said
    failed = [event for event in done.events if event.type == "agent_failed"]
    assert [each.agent for each in failed] == [WORKER]
    assert "opencode" in failed[0].why + failed[0].hint
    assert [each.ok for each in done.told(ToolReturned, PEER)] == [True]


def test_the_words_for_a_person_name_both_agents_and_the_answer(island, place):
    config = write_config(CLAUDE, TEAM, str(place.base))

    async def ran() -> tuple[int | None, str]:
        with serve_model(Script(CLAUDE, TEAM)) as server:
            process = await place.started(server.environment, config, TASK)
            printed, said = await process.communicate()
            return process.returncode, (printed + said).decode()

    code, printed = on(island, ran())

    assert code == 0, printed
    assert all(word in printed for word in (WORKER, PEER, "See theirs.txt.", "All agents have voted"))
    assert "\x1b" not in printed
