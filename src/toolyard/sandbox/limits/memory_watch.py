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
_REST_FACTOR = 20
"""Looking takes at most one part in this many of the time."""
_SHARED_PAGES_FIELD = 2  # the place of that count in statm; files that are mapped count there too
_MOST_PROCESSES = 2_000


class MemoryWatch:
    """For one box. `check` may be called from any thread, as often as one likes."""

    def __init__(self, first_process: int, max_bytes: int) -> None:
        self._first_process = first_process
        self._max_bytes = max_bytes
        self._next_check_at = 0.0
        self._has_killed = False

    def check(self) -> None:
        began = time.monotonic()
        if began < self._next_check_at:
            return
        for pid in _descendant_pids(self._first_process):
            if _exceeds_shared_memory(pid, self._max_bytes):
                self._kill(pid)
        now = time.monotonic()
        self._next_check_at = now + (now - began) * _REST_FACTOR

    def has_killed_process(self) -> bool:
        """Whether a process was killed since this was last asked."""
        ended, self._has_killed = self._has_killed, False
        return ended

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if _exceeds_shared_memory(pid, self._max_bytes):  # it is still the one that was looked at
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    self._has_killed = True
            finally:
                os.close(handle)


def _descendant_pids(first: int) -> Iterator[int]:
    waiting = [first]
    for _ in range(_MOST_PROCESSES):
        if not waiting:
            return
        for child in _child_pids(waiting.pop()):
            yield child
            waiting.append(child)


def _child_pids(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += [int(child) for child in file.read().split()]
    return found


def _exceeds_shared_memory(pid: int, max_bytes: int) -> bool:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            if int(file.read().split()[_SHARED_PAGES_FIELD]) * _PAGE <= max_bytes:
                return False
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            row = next((row for row in file.read().splitlines() if row.startswith(b"RssShmem:")), b"RssShmem: 0 kB")
    except (OSError, IndexError):
        return False
    return int(row.split()[1]) * 1024 > max_bytes
