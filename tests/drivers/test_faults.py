"""Faults in the middle of a run: each ends in one last message with the right status, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import time

import pytest

from tests.drivers.scripted import PYTHON, ScriptedDriver, processes_of_run, script, variables
from toolyard.core.permission_modes import PermissionMode
from toolyard.drivers.mcp_host import Host
from toolyard.drivers.messages import Finished, Status, TextDelta, ToolCall, ToolResult
from toolyard.drivers.run import CliRun, DriveOptions

SECONDS = 40
SOON = 2.0 + 8.0
"""A run is gone within 2 s; a busy machine may take longer to notice."""
ATTACH = (["connect"], ["list"])
BESIDE = ["child"]
COMMAND = ["call", "yard_Bash", {"command": "sleep 1000"}]
WRITE = ["call", "Write", {"file_path": "a.txt", "content": "x"}]


@pytest.fixture
def started(tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    for folder in (temporary, tmp_path / "ws"):
        folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(temporary))

    def make(*steps, host=None, **more) -> CliRun:
        options = {"program": PYTHON, "variables": variables(), "state": str(tmp_path / "state"), **more}
        return CliRun(ScriptedDriver(), script(*steps), DriveOptions(str(tmp_path / "ws"), **options), host)

    yield make
    assert list(temporary.rglob("toolyard-drive-*")) == [], "a run left its folder"


def told_by(run: CliRun, on=None) -> list:
    """What a run says; `on(message)` for each on the way."""

    async def listened():
        told = []
        async for message in run:
            told.append(message)
            if on is not None:
                on(message)
        return told

    told = asyncio.run(asyncio.wait_for(listened(), SECONDS))
    assert [message for message in told if isinstance(message, Finished)] == told[-1:]
    assert processes_of_run(run.id) == []
    return told


def program_of(run: CliRun) -> int:
    """The pid of the CLI: the one that runs the script."""
    found = [
        pid
        for pid in processes_of_run(run.id)
        if b"scripted_cli.py" in (words := pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        and b"reaper.py" not in words
    ]
    (pid,) = found
    return pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize(
    ("moment", "steps"),
    [
        (TextDelta, [["say", "hm"], ["wait"]]),
        (TextDelta, [*ATTACH, BESIDE, ["say", "hm"], ["wait"]]),
        (ToolCall, [*ATTACH, BESIDE, COMMAND]),
        (ToolResult, [*ATTACH, WRITE, ["wait"]]),
    ],
    ids=["before it attached", "thinking", "calling", "having called"],
)
def test_a_cli_that_somebody_ends_has_failed_at_once(started, number, moment, steps):
    struck = []
    run = started(*steps)

    def strike(message):
        if isinstance(message, moment) and not struck:
            struck.append(time.monotonic())
            os.kill(program_of(run), number)

    ended = told_by(run, strike)[-1]
    assert (ended.status, ended.exit_code) == (Status.FAILED, -number)
    assert f"was ended by {number.name}." in ended.reason
    assert time.monotonic() - struck[0] < SOON


@pytest.mark.parametrize("manners", [[], [["ignore"]]], ids=["polite", "deaf"])
def test_a_run_is_cancelled_in_the_middle_of_a_call_within_its_time(started, manners):
    run, struck = started(*ATTACH, *manners, BESIDE, COMMAND), []

    def cancel(message):
        if isinstance(message, ToolCall):
            struck.append(time.monotonic())
            run.cancel()

    ended = told_by(run, cancel)[-1]
    assert (ended.status, ended.attached) == (Status.CANCELLED, True)
    assert time.monotonic() - struck[0] < SOON


def test_the_deadline_holds_in_the_middle_of_a_call(started):
    seconds = 8.0
    told = told_by(started(*ATTACH, ["ignore"], BESIDE, COMMAND, timeout=seconds))
    assert told[-1].status is Status.TIMED_OUT
    assert seconds <= told[-1].seconds < seconds + SOON


def test_a_run_that_loses_our_server_in_the_middle_of_a_call_has_failed(started, tmp_path):
    host, struck = Host(), []

    async def ask(_action, _decision) -> bool:
        struck.append(time.monotonic())
        await asyncio.to_thread(host.close)
        return True

    ended = told_by(started(*ATTACH, WRITE, ["over"], host=host, mode=PermissionMode.DEFAULT, ask=ask))[-1]
    assert (ended.status, ended.reason) == (Status.FAILED, "Our server ended before the run did.")
    assert time.monotonic() - struck[0] < SOON
    assert not (tmp_path / "ws" / "a.txt").exists()


def test_a_line_of_2_mb_and_10_mb_on_stderr_stall_nothing(started):
    text = "0123456789" * 200_000
    steps = (["stderr", "all is well\n", 10_000_000 // 12], ["say", text], ["stderr", "and again\n", 100])
    told = told_by(started(*ATTACH, *steps, ["over"]))
    assert [len(message.text) for message in told if isinstance(message, TextDelta)] == [len(text)]
    assert (told[-1].status, told[-1].text) == (Status.SUCCEEDED, text)


def test_a_line_without_end_is_lost_and_told_and_the_run_goes_on(started):
    told = told_by(started(*ATTACH, ["raw", "x" * 1000, 17_000], ["raw", "\n", 1], ["say", "still here"], ["over"]))
    assert [message.message for message in told if message.type == "error"] == [
        "1 messages of the CLI were too long and were dropped."
    ]
    assert (told[-1].status, told[-1].text) == (Status.SUCCEEDED, "still here")


def test_nonsense_among_the_messages_is_passed_over(started):
    noise = ('{"kind": "text"', "\x00\x01", "[]", "null", '"over"', "{}", '{"kind": 5}', "}{")
    told = told_by(started(*ATTACH, *(["raw", f"{line}\n", 1] for line in noise), ["say", "fine"], ["over"]))
    assert [message.type for message in told] == ["session_started", "text_delta", "finished"]
    assert told[-1].status is Status.SUCCEEDED
