"""Models that fail: every run ends once, in time, with the right status and with words that help."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.e2e.drivers.clients import CLIENTS, CLIS
from tests.e2e.drivers.trials import Scenario
from toolyard.drivers import Fault, Status, drive
from toolyard.drivers.registry import driver_of
from toolyard.testing.mock_model import Call, Fail, Nonsense, Step

SECONDS = 90.0
GRACE_SECONDS = 6.0
"""From the deadline to the last message, on a busy machine."""
SHORT_SECONDS = 15.0
"""Of CLIs that ask a provider again and again, longer than anybody wants to wait, and say nothing meanwhile."""
WRITE = Call("Write", {"file_path": "a.txt", "content": "x"})


@dataclass(frozen=True)
class Trouble:
    step: Step
    given_up: dict[str, str]
    """What is told by the CLIs that give up, which ends the run. The others retry until its deadline."""


TROUBLES = {
    "401": Trouble(Fail(401), dict.fromkeys(CLIS, "API key not valid")),
    "400": Trouble(Fail(400), dict.fromkeys(CLIS, "the request is not right")),
    "429": Trouble(Fail(429), {"claude": "429", "codex": "429 Too Many Requests"}),
    "500": Trouble(Fail(500), {"claude": "500 the model fell over"}),
    "nonsense": Trouble(
        Nonsense(),
        {
            "gemini": "JSON",
            "claude": "Failed to parse JSON",
            "codex": "stream disconnected before completion",
            "qwen": "JSON",
        },
    ),
}


def scenarios(seconds: float, *, give_up: bool) -> dict[str, Scenario]:
    """Of the CLIs that give up, or of those that do not."""
    found = {}
    for name, trouble in TROUBLES.items():
        clis = tuple(cli for cli in CLIS if (cli in trouble.given_up) is give_up)
        found[name] = Scenario((WRITE, trouble.step), seconds, clis=clis)
    return found


PATIENT = scenarios(SHORT_SECONDS, give_up=False)
FAILED = scenarios(SECONDS, give_up=True)
BATCH = (*PATIENT.values(), *FAILED.values())
GIVEN_UP = [(name, cli) for name, scenario in FAILED.items() for cli in scenario.clis]
RETRIED = [(name, cli) for name, scenario in PATIENT.items() for cli in scenario.clis]


@pytest.mark.parametrize(("what", "cli"), GIVEN_UP)
def test_a_model_that_fails_fails_the_run_in_its_own_words(trials, what, cli):
    trial = trials.of(BATCH, FAILED[what], cli)
    ended = trial.finished
    assert (ended.status, ended.attached) == (Status.FAILED, True), ended
    assert TROUBLES[what].given_up[cli] in ended.reason
    assert trial.told(Fault)[-1].message in ended.reason
    assert (trial.workspace / "a.txt").read_text() == "x"
    assert trial.left == []


@pytest.mark.parametrize("cli", CLIS)
def test_who_has_a_wrong_key_is_told_where_to_put_the_right_one(trials, cli):
    trial = trials.of(BATCH, FAILED["401"], cli)
    assert CLIENTS[cli].key in trial.finished.hint


@pytest.mark.parametrize(("what", "cli"), RETRIED)
def test_a_cli_that_asks_for_ever_is_ended_by_the_deadline(trials, what, cli):
    trial = trials.of(BATCH, PATIENT[what], cli)
    ended = trial.finished
    assert ended.status is Status.TIMED_OUT, ended
    assert SHORT_SECONDS <= ended.seconds < SHORT_SECONDS + GRACE_SECONDS
    assert trial.left == []


def test_a_cli_that_is_missing_is_told_with_the_line_that_installs_it(cli, tmp_path):
    async def driven():
        run = drive(cli, "go", workspace=str(tmp_path), state=str(tmp_path / "state"), variables={"PATH": "/nowhere"})
        return [message async for message in run]

    fault, ended = asyncio.run(driven())
    assert (type(fault), ended.status) == (Fault, Status.FAILED)
    assert "is not installed" in ended.reason
    assert f"npm install -g {driver_of(cli).package}" in ended.hint
