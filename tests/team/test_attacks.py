"""Models that mean harm, disks that are full, state that is damaged: a run ends in good order and tells why."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from pathlib import Path

import pytest

from toolyard.core.errors import SystemFault
from toolyard.team.events import AgentFailed, EndReason, Notice, RunFinished, RunStarted, ToolCalled
from toolyard.team.store import STORE_FILE, RunStore, StateFault
from toolyard.team.votes import parse_vote
from toolyard.testing.mock_model import Call, Fail, Hang, Say, Turn

WRITES = Call("Write", {"file_path": "plan.md", "content": "# Plan\n"})


def test_a_vote_with_a_million_spaces_is_read_at_once() -> None:
    began = time.monotonic()

    assert parse_vote(f"VOTE: a{' ' * 1_000_000}because it works", ["a"]).choice == "a"
    assert parse_vote(f"VOTE: a{' ' * 1_000_000}b", ["a"]).choice == ""
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("line", "agents", "choice"),
    [
        ("VOTE: a..", ["a", "a."], "a."),
        ("VOTE: a.", ["a", "a."], "a."),
        ("VOTE: a.", ["a"], "a"),
        ("VOTE: A..", ["a", "a."], "a."),
        ("VOTE: A", ["a", "A"], "A"),
        ("VOTE: ab", ["a", "abc"], ""),
        ("VOTE: \u0430", ["a"], ""),
    ],
)
def test_a_vote_counts_for_nobody_whose_name_is_only_alike(line: str, agents: list[str], choice: str) -> None:
    assert parse_vote(line, agents).choice == choice


@pytest.mark.parametrize("after", [1, 2, 4, 5])
def test_a_run_whose_state_cannot_be_kept_ends_in_order_and_is_resumed(team_of, monkeypatch, after: int) -> None:
    team = team_of(a=[WRITES, Say("One."), Say("VOTE: a")], b=[Say("Two."), Say("VOTE: a")])
    written = RunStore._write
    left = [after]

    def failing(self: RunStore, *given) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StateFault("The disk is full.")
        written(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "_write", failing)
        first = team.run(["a", "b"])

    assert first.ended is EndReason.INTERRUPTED
    assert "The disk is full." in team.heard(Notice)[0].text
    assert len(team.heard(RunFinished)) == 1
    assert team.heard(AgentFailed) == []
    assert team.run(["a", "b"], resume=first.run).ended is EndReason.CONSENSUS


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE agents SET conversation = x'7b'",
        "UPDATE agents SET spent = '{\"other\": 1}'",
        "UPDATE facts SET value = 'no JSON'",
    ],
)
def test_damaged_state_is_told_and_leaves_nothing_open(team_of, damage: str) -> None:
    team = team_of(a=[WRITES, Fail(400), Say("Fine.")])
    first = team.run(["a"])
    with sqlite3.connect(os.path.join(first.folder, STORE_FILE)) as connection:
        connection.execute(damage)
    connection.close()
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(SystemFault, match="damaged"):
        team.run(["a"], resume=first.run)

    assert len(os.listdir("/proc/self/fd")) <= before


def test_one_run_is_not_resumed_twice_at_once_whatever_the_configuration(team_of, tmp_path: Path) -> None:
    team = team_of(a=[Fail(400), Hang(), Say("Fine.")])
    first = team.run(["a"])

    async def both() -> None:
        one = team.made(["a"], resume=first.run)
        going = asyncio.create_task(one.go())
        while len(team.heard(RunStarted)) < 2:
            await asyncio.sleep(0.01)
        team.more = {"toolyard": {"workspace": "elsewhere"}}
        with pytest.raises(SystemFault, match="is already active"):
            await team.made(["a"], resume=first.run).go()
        one.stop()
        await going

    asyncio.run(both())


def test_of_a_thousand_calls_in_one_turn_the_first_hundred_are_made(team_of) -> None:
    team = team_of(a=[Turn(calls=tuple(Call("LS", {"path": "."}) for _ in range(300))), Say("Fewer, then.")])
    team.kinds = ("openai",)

    assert team.run(["a"]).text == "Fewer, then."
    assert len(team.heard(ToolCalled)) == 100
    assert "Make fewer of them" in team.server.requests[-1].results[-1]
    assert len(team.server.requests[-1].results) == 300


def test_a_run_stopped_while_a_server_does_not_come_up_ends_at_once(team_of) -> None:
    team = team_of(a=Say("Never asked."))
    team.more = {"available_mcp_servers": {"slow": {"command": "sleep", "args": ["55"]}}}

    async def stopped() -> RunFinished:
        made = team.made(["a"])
        asyncio.get_running_loop().call_later(1.5, made.stop)
        return await made.go()

    began = time.monotonic()
    finished = asyncio.run(stopped())

    assert finished.ended is EndReason.INTERRUPTED
    assert time.monotonic() - began < 20
    assert team.events[-1] == finished
