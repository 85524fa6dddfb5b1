"""Limits the shared memory of a sandbox's processes if no control group counts it.

The limit of each process (RLIMIT_DATA) covers its private memory. Shared mappings (anonymous mappings, files in
memory) are charged to no process, so a single one could fill the machine. Without a control group the host inspects
the processes while a run is active, and kills one that has more shared memory than a process may have.

This limit is coarse: it samples each process separately, and sees only mapped memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")
_REST_FACTOR = 20
"""Checking takes at most one part in this many of the time."""
_SHARED_PAGES_FIELD = 2  # the field of statm; it counts mapped files too
_MOST_PROCESSES = 2_000


class MemoryWatch:
    """The watch of one sandbox. `check` may be called from any thread, at any rate."""

    def __init__(self, first_process: int, max_bytes: int) -> None:
        self._first_process = first_process
        self._max_bytes = max_bytes
        self._next_check_at = 0.0
        self._has_killed = False

    def check(self) -> None:
        """Kills every process below the first one that exceeds the limit."""
        began = time.monotonic()
        if began < self._next_check_at:
            return
        for pid in _descendant_pids(self._first_process):
            if _exceeds_shared_memory(pid, self._max_bytes):
                self._kill(pid)
        now = time.monotonic()
        self._next_check_at = now + (now - began) * _REST_FACTOR

    def has_killed_process(self) -> bool:
        """Whether a process was killed since the last call."""
        ended, self._has_killed = self._has_killed, False
        return ended

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if _exceeds_shared_memory(pid, self._max_bytes):  # the pid still refers to the same process
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
