"""`toolyard drive` as a process: what it prints, and what is left when it is killed in the middle of a call."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import sys
import time
from dataclasses import dataclass

import pytest

from tests.e2e.drivers.clients import CLIENTS, CLIS
from tests.e2e.drivers.trials import processes_with, until
from tests.e2e.scripted import ScriptedModel
from toolyard.drivers import Finished, Status, ToolCall, ToolResult, from_json
from toolyard.testing.mock_model import Call

TOOLYARD = pathlib.Path(sys.executable).with_name("toolyard")
SECONDS = 300.0
SOON = 2.0 + 8.0
"""Everything is gone within 2 s; a busy machine may take longer."""


@dataclass
class Place:
    """Where one command runs."""

    cli: str
    base: pathlib.Path
    trials: object

    def __post_init__(self) -> None:
        for name in ("ws", "tmp"):
            (self.base / name).mkdir(parents=True)

    async def started(self, url: str) -> asyncio.subprocess.Process:
        words = ("drive", self.cli, "go", "--workspace", str(self.base / "ws"), "--state", str(self.base / "state"))
        return await asyncio.create_subprocess_exec(
            *(str(TOOLYARD), *words, "--model", CLIENTS[self.cli].model, "--json"),
            env={**self.trials.variables(self.cli, url), "XDG_STATE_HOME": str(self.base / "tmp")},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    def model(self, *steps: Call) -> ScriptedModel:
        return ScriptedModel(steps, CLIENTS[self.cli].prefix)


@dataclass(frozen=True)
class Crash:
    seconds: float
    left: list[object]


async def crashed(place: Place, sleep: str) -> Crash:
    """Kill the command while a tool is being called."""
    with place.model(Call("Bash", {"command": f"touch started; sleep {sleep}"})).serving() as url:
        process = await place.started(url)
        try:
            await until((place.base / "ws" / "started").exists)
            await until(lambda: processes_with(sleep))
            assert list((place.base / "tmp").rglob("toolyard-drive-*"))
        finally:
            process.kill()
        struck = time.monotonic()
        assert await process.wait() == -signal.SIGKILL
        while (left := _left(place, sleep)) and time.monotonic() < struck + 2 * SOON:
            await asyncio.sleep(0.05)
        return Crash(time.monotonic() - struck, left)


def _left(place: Place, sleep: str) -> list[object]:
    folders = [*(place.base / "tmp").rglob("toolyard-drive-*")]
    return [*processes_with(str(place.base)), *processes_with(sleep), *folders]


@pytest.fixture(scope="session")
def crashes(trials, tmp_path_factory) -> dict[str, Crash]:
    async def all_of_them() -> dict[str, Crash]:
        clis = [cli for cli in CLIS if cli in trials.clis]
        places = [Place(cli, tmp_path_factory.mktemp(f"crash-{cli}"), trials) for cli in clis]
        work = (crashed(place, f"86399.{os.getpid()}{number}") for number, place in enumerate(places))
        return dict(zip(clis, await asyncio.gather(*work), strict=True))

    return trials.island.run(all_of_them(), SECONDS)


def test_killed_in_the_middle_of_a_call_we_leave_nothing_behind(crashes, cli):
    assert crashes[cli].left == []
    assert crashes[cli].seconds < SOON


@pytest.mark.parametrize("cli", ["codex"])
def test_the_command_prints_the_messages_of_a_run_as_lines(trials, tmp_path, cli):
    place = Place(cli, tmp_path / "place", trials)

    async def ran() -> tuple[int | None, bytes]:
        with place.model(Call("Write", {"file_path": "a.txt", "content": "x"})).serving() as url:
            process = await place.started(url)
            printed, _ = await process.communicate()
            return process.returncode, printed

    code, printed = trials.island.run(ran(), SECONDS)
    messages = [from_json(json.loads(line)) for line in printed.splitlines()]
    kinds = [type(message) for message in messages]
    assert (code, messages[-1].status) == (0, Status.SUCCEEDED)
    assert kinds.count(Finished) == 1
    assert ToolCall in kinds
    assert ToolResult in kinds
    assert (tmp_path / "place" / "ws" / "a.txt").read_text() == "x"
