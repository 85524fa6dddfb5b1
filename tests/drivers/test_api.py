"""What a driver is told of a run: what the caller chose, as it was chosen."""

from __future__ import annotations

import asyncio
import os

from tests.drivers.scripted import KEY, PYTHON, ScriptedDriver, processes_of_run, script, variables
from toolyard.app.toolsets import Toolset, tools_of
from toolyard.drivers import drive
from toolyard.drivers import run as drivers_run
from toolyard.drivers.driver import LaunchSpec, RunSpec
from toolyard.drivers.messages import Status, TextDelta
from toolyard.drivers.registry import DRIVERS
from toolyard.drivers.run import CliRun, DriveOptions

SECONDS = 40
PROMPT = script(["connect"], ["list"], ["over"])


class Watched(ScriptedDriver):
    seen: RunSpec

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        self.seen = run
        return super().launch_spec(run)


def test_what_the_caller_chose_reaches_the_driver(tmp_path, monkeypatch):
    for name in ("tmp", "ws"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "tmp"))
    driver = Watched()
    options = DriveOptions(
        str(tmp_path / "ws"),
        model="a-model",
        tools=Toolset.REFERENCE,
        instructions="be brief",
        program=PYTHON,
        variables=variables(**{KEY: "the-very-key", "ANOTHER": "x"}),
        state=str(tmp_path / "state"),
    )
    ended = asyncio.run(asyncio.wait_for(CliRun(driver, PROMPT, options).finish(), SECONDS))
    assert ended.status is Status.SUCCEEDED, ended
    seen = driver.seen
    assert (seen.prompt, seen.model, seen.instructions) == (PROMPT, "a-model", "be brief")
    assert set(seen.tools) == set(tools_of(Toolset.REFERENCE))
    assert seen.variables == {KEY: "the-very-key"}
    assert not seen.has_login
    assert seen.workdir.startswith(f"{seen.folder}/")
    assert seen.url.startswith("http://127.0.0.1:")


def test_the_cli_stands_in_an_empty_folder_of_the_run_and_not_in_the_workspace(tmp_path, monkeypatch):
    """What lies in a workspace is a stranger's: settings, hooks, servers to be started."""
    for name in ("tmp", "ws"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "tmp"))
    driver, go = Watched(), tmp_path / "go"
    prompt = script(["connect"], ["list"], ["say", "up"], ["wait", str(go)], ["over"])
    options = DriveOptions(str(tmp_path / "ws"), program=PYTHON, variables=variables(), state=str(tmp_path / "state"))
    run = CliRun(driver, prompt, options)

    async def looked() -> set[str]:
        found: set[str] = set()
        async for message in run:
            if isinstance(message, TextDelta):
                found = {os.readlink(f"/proc/{pid}/cwd") for pid in processes_of_run(run.id)}
                assert os.listdir(driver.seen.workdir) == []
                go.touch()
        return found

    assert asyncio.run(asyncio.wait_for(looked(), SECONDS)) == {driver.seen.workdir}


def test_drive_makes_the_run_of_the_cli_that_is_named(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(drivers_run, "CliRun", lambda *given: made.append(given))
    drive("Codex", "do it", workspace=str(tmp_path), model="m", timeout=3.0)
    ((driver, prompt, options, host),) = made
    assert driver is DRIVERS["codex"]
    assert (prompt, host) == ("do it", None)
    assert (options.workspace, options.model, options.timeout) == (str(tmp_path), "m", 3.0)
