"""Background commands by themselves, in a sandbox that does what a test tells it."""

import contextlib
import threading

import pytest

from toolyard.core.errors import SystemFault, ToolError
from toolyard.sandbox.background_commands import BackgroundCommand, BackgroundCommands, OutputUpdate
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, RunResult, Stream

WAIT = 10.0
DONE = RunResult(RunEnding.FINISHED, 0)
REQUEST = RunRequest(RunKind.COMMAND, "run", 1.0)


class Scripted:
    """A sandbox whose runs end when they are let go or cancelled."""

    def __init__(self, fault=None):
        self.fault = fault
        self.requests = []
        self.release = threading.Event()

    def run(self, request, sink, cancelled):
        self.requests.append(request)
        if self.fault is not None:
            raise self.fault
        sink(Stream.OUT, b"out")
        while not self.release.wait(0.005):
            if cancelled.is_set():
                return RunResult(RunEnding.CANCELLED, 137)
        return DONE


@pytest.fixture
def sandbox():
    made = Scripted()
    yield made
    made.release.set()


@pytest.fixture
def shells():
    with contextlib.closing(BackgroundCommands()) as made:
        yield made


def test_a_shell_runs_without_a_clock_and_ends_as_its_command_does(shells, sandbox):
    shell = shells.start(sandbox, REQUEST)
    sandbox.release.set()
    assert shell.ended.wait(WAIT)
    assert shell.pop_output() == OutputUpdate({Stream.OUT: b"out", Stream.ERR: b""}, 0, DONE)
    assert sandbox.requests[0].seconds == float("inf")
    assert sandbox.requests[0].output_bytes > 1 << 30


def test_news_are_told_once_unless_they_are_put_back():
    shell = BackgroundCommand("bash_1", "run")
    shell.append(Stream.OUT, b"one ")
    news = shell.pop_output()
    assert shell.pop_output() == OutputUpdate({Stream.OUT: b"", Stream.ERR: b""}, 0, None)
    shell.append(Stream.OUT, b"two")
    shell.restore_output(news)
    assert shell.pop_output().output[Stream.OUT] == b"one two"


def test_the_oldest_output_is_dropped_and_counted():
    shell = BackgroundCommand("bash_1", "run")
    shell.append(Stream.OUT, b"a" * (1 << 20))
    shell.append(Stream.OUT, b"end")
    news = shell.pop_output()
    assert (news.dropped, len(news.output[Stream.OUT]), news.output[Stream.OUT][-4:]) == (3, 1 << 20, b"aend")
    assert shell.pop_output().dropped == 0


def test_a_sandbox_that_fails_ends_the_shell_with_the_reason(shells):
    shell = shells.start(Scripted(SystemFault("It broke.")), REQUEST)
    assert shell.ended.wait(WAIT)
    news = shell.pop_output()
    assert b"It broke." in news.output[Stream.ERR]
    assert news.outcome == RunResult(RunEnding.LOST, 1)


def test_there_are_32_at_once_and_room_again_when_one_ends(shells, sandbox):
    running = [shells.start(sandbox, REQUEST) for _ in range(32)]
    with pytest.raises(ToolError, match="32 commands run in the background already") as caught:
        shells.start(sandbox, REQUEST)
    assert caught.value.hint == "End one first, for example bash_1, with KillShell."
    assert running[0].kill()
    assert shells.start(sandbox, REQUEST).id == "bash_33"


def test_killing_what_has_ended_says_so(shells, sandbox):
    shell = shells.start(sandbox, REQUEST)
    assert [shell.kill(), shell.kill()] == [True, False]
    assert shell.outcome == RunResult(RunEnding.CANCELLED, 137)


def test_what_ended_long_ago_is_forgotten(shells, sandbox):
    sandbox.release.set()
    for _ in range(70):
        assert shells.start(sandbox, REQUEST).ended.wait(WAIT)
    with pytest.raises(ToolError, match="no background command 'bash_1'"):
        shells.get("bash_1")
    assert shells.get("bash_70").id == "bash_70"


def test_closing_ends_every_one(sandbox):
    shells = BackgroundCommands()
    running = [shells.start(sandbox, REQUEST) for _ in range(5)]
    shells.close()
    assert all(shell.ended.is_set() for shell in running)
