"""Kills the processes of a run whose reaper was killed.

The orphans have been reparented, so the reaper's way (its descendants) no longer works. They are found by the
variable that names the run, by the session that the reaper created, and as descendants of those. A process that
cleared its environment, created a session and lost its parent is not found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

RUN_VARIABLE = "TOOLYARD_RUN"
"""Variable that names the run in each of its processes."""
_SWEEPS = 100
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class _ProcessInfo:
    parent: int
    session: int


def kill_run_processes(run: str, reaper_pid: int) -> None:
    """Kills every process of a run whose reaper is dead; `reaper_pid` was its pid."""
    mark = f"{RUN_VARIABLE}={run}".encode()
    for _ in range(_SWEEPS):  # the next sweep sees a process that is being forked now
        processes = _live_processes()
        # A pid is reused only when no session has that id: then none of our processes are in that session.
        session = reaper_pid if reaper_pid not in processes else -1
        ours = {pid for pid, seen in processes.items() if seen.session == session or _has_variable(pid, mark)}
        while below := {pid for pid, seen in processes.items() if seen.parent in ours} - ours:
            ours |= below
        if not ours and reaper_pid not in processes:
            return
        if not ours:  # the reaper is exiting, so the session cannot be identified yet
            time.sleep(_PAUSE_SECONDS)
        for pid in ours:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _live_processes() -> dict[int, _ProcessInfo]:
    """Returns all processes that have not ended."""
    processes: dict[int, _ProcessInfo] = {}
    try:
        names = os.listdir("/proc")
    except OSError:  # no /proc, or no file descriptor left
        return processes
    for name in filter(str.isdecimal, names):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent, _group, session = file.read().rpartition(b")")[2].split()[:4]
            if state not in {b"Z", b"X"}:
                processes[int(name)] = _ProcessInfo(int(parent), int(session))
    return processes


def _has_variable(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as variables:
            return mark in variables.read().split(b"\0")
    except OSError:
        return False
