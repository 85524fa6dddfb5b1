"""What ends servers when their host was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from toolyard.mcp_client.watchdog import Watchdog

from .upstreams import is_alive, until


@pytest.fixture
def sleeper() -> Iterator[Callable[[], int]]:
    """Starts programs in groups of their own; their numbers."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        running.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        return running[-1].pid

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_it_kills_the_groups_it_guards_when_its_input_ends(sleeper):
    guarded, released, never = sleeper(), sleeper(), sleeper()
    watchdog = Watchdog()
    watchdog.add_group(guarded)
    watchdog.add_group(released)
    watchdog.remove_group(released)
    assert watchdog._process is not None
    watchdog._process.stdin.close()  # as the kernel does when a process ends
    watchdog._process.wait()
    until(lambda: not is_alive(guarded))
    assert is_alive(released)
    assert is_alive(never)


def test_closing_it_kills_nobody_it_no_longer_guards(sleeper):
    one = sleeper()
    with Watchdog() as watchdog:
        watchdog.add_group(one)
        watchdog.remove_group(one)
        pid = watchdog._process.pid
    assert is_alive(one)
    assert not is_alive(pid)


def test_one_that_was_killed_is_replaced_and_knows_everybody(sleeper):
    first, second = sleeper(), sleeper()
    watchdog = Watchdog()
    watchdog.add_group(first)
    os.kill(watchdog._process.pid, signal.SIGKILL)
    until(lambda: not is_alive(watchdog._process.pid))
    watchdog.add_group(second)
    watchdog._process.stdin.close()
    watchdog._process.wait()
    until(lambda: not is_alive(first) and not is_alive(second))
