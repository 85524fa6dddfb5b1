"""Shared memory of a sandbox's processes, where no control group counts it.

The limit of each process (RLIMIT_DATA) is about its private memory. What it maps shared (anonymous mappings, files in
memory) counts for nobody, so that one process could fill the machine. Without a control group the host looks at the
processes while a run is under way, and kills one that holds more shared memory than a process may have.

It is a coarse wall: it looks now and then, at each process by itself, and sees only what is mapped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHARE_OF_TIME = 20
"""Looking takes at most one part in this many of the time."""
_SHARED_PAGES = 2  # the place of that count in statm; files that are mapped count there too
_MOST_PROCESSES = 2_000


class MemoryWatch:
    """For one box. `check` may be called from any thread, as often as one likes."""

    def __init__(self, first_process: int, most_bytes: int) -> None:
        self._first = first_process
        self._most = most_bytes
        self._not_before = 0.0
        self._ended = False

    def check(self) -> None:
        began = time.monotonic()
        if began < self._not_before:
            return
        for pid in _processes_below(self._first):
            if _holds_more(pid, self._most):
                self._end(pid)
        now = time.monotonic()
        self._not_before = now + (now - began) * _SHARE_OF_TIME

    def has_ended_some(self) -> bool:
        """Whether a process was killed since this was last asked."""
        ended, self._ended = self._ended, False
        return ended

    def _end(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if _holds_more(pid, self._most):  # it is still the one that was looked at
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    self._ended = True
            finally:
                os.close(handle)


def _processes_below(first: int) -> Iterator[int]:
    waiting = [first]
    for _ in range(_MOST_PROCESSES):
        if not waiting:
            return
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += [int(child) for child in file.read().split()]
    return found


def _holds_more(pid: int, most: int) -> bool:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            if int(file.read().split()[_SHARED_PAGES]) * _PAGE <= most:
                return False
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            row = next((row for row in file.read().splitlines() if row.startswith(b"RssShmem:")), b"RssShmem: 0 kB")
    except (OSError, IndexError):
        return False
    return int(row.split()[1]) * 1024 > most
