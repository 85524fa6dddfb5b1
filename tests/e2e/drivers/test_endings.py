"""Runs that somebody ends: us, a signal, a crash. Each is told once, at once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.e2e.drivers.trials import Scenario, Trial, processes_with, until
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers import Status
from toolyard.testing.mock_model import Call, Hang

SOON = 2.0 + 8.0
"""A run is gone within 2 s; a busy machine may take longer to notice."""
WRITE = Call("Write", {"file_path": "a.txt", "content": "x"})
SLEEP = "86399.7531"
COMMAND = Call("Bash", {"command": f"touch started; sleep {SLEEP}"})


async def cancel(trial: Trial) -> None:
    await until((trial.workspace / "started").exists)
    trial.struck = time.monotonic()
    trial.run.cancel()


async def close_host(trial: Trial) -> bool:
    trial.struck = time.monotonic()
    assert trial.host is not None
    await asyncio.to_thread(trial.host.close)
    return True


def starting(number: int) -> Scenario:
    async def strike(trial: Trial) -> None:
        await until(trial.program)
        trial.strike(number)

    return Scenario(beside=strike)


def thinking(number: int) -> Scenario:
    return Scenario((Hang(),), before=lambda trial, _turn: trial.strike(number))


def calling(number: int) -> Scenario:
    async def strike(trial: Trial) -> bool:
        trial.strike(number)
        return await asyncio.Event().wait()

    return Scenario((WRITE,), mode=PermissionMode.DEFAULT, ask=strike)


CANCELLED = Scenario((COMMAND,), beside=cancel)
HOSTLESS = Scenario((WRITE,), mode=PermissionMode.DEFAULT, ask=close_host, has_host=True)
STRUCK = {
    f"{number.name} {moment.__name__}": moment(number)
    for moment in (starting, thinking, calling)
    for number in (signal.SIGTERM, signal.SIGKILL)
}
BATCH = (CANCELLED, HOSTLESS, *STRUCK.values())


def test_a_run_is_cancelled_in_the_middle_of_a_command(trials, cli):
    trial = trials.of(BATCH, CANCELLED, cli)
    assert (trial.finished.status, trial.finished.attached) == (Status.CANCELLED, True)
    assert trial.took < SOON
    assert trial.left == []
    assert processes_with(SLEEP) == []


@pytest.mark.parametrize("what", STRUCK)
def test_a_cli_that_somebody_ends_has_failed(trials, cli, what):
    trial = trials.of(BATCH, STRUCK[what], cli)
    assert trial.finished.status is Status.FAILED, trial.finished
    assert trial.finished.reason
    assert trial.struck
    assert trial.took < SOON
    assert trial.left == []


def test_a_run_that_loses_our_server_in_the_middle_of_a_call_has_failed(trials, cli):
    trial = trials.of(BATCH, HOSTLESS, cli)
    assert (trial.finished.status, trial.finished.reason) == (Status.FAILED, "Our server ended before the run did.")
    assert trial.took < SOON
    assert trial.left == []
