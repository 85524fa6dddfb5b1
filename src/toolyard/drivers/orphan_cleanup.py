"""What is left of a run whose keeper was killed, found and ended by us.

The keeper's own way, to end whatever descends from it, is closed then: the orphans are somebody else's children. They
are known by the variable that names the run, by the session that the keeper began, and by having one of those above
them. Only a process that cleared its environment, began a session of its own and lost its parent is none of these.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

RUN_VARIABLE = "TOOLYARD_RUN"
"""Names the run in the environment of each of its processes."""
_SWEEPS = 100
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class _ProcessInfo:
    parent: int
    session: int


def kill_run_processes(run: str, reaper_pid: int) -> None:
    """End every process of a run whose keeper, which had that pid, is dead."""
    mark = f"{RUN_VARIABLE}={run}".encode()
    for _ in range(_SWEEPS):  # one that is just being forked shows with the next
        living = _live_processes()
        # A number is given again only when no session has it any more: then there is nothing of ours in that one.
        session = reaper_pid if reaper_pid not in living else -1
        found = {pid for pid, seen in living.items() if seen.session == session or _has_variable(pid, mark)}
        while below := {pid for pid, seen in living.items() if seen.parent in found} - found:
            found |= below
        if not found and reaper_pid not in living:
            return
        if not found:  # the keeper is on its way out, and its session not yet told from another's
            time.sleep(_PAUSE_SECONDS)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _live_processes() -> dict[int, _ProcessInfo]:
    """Every process but those that have ended."""
    living: dict[int, _ProcessInfo] = {}
    try:
        names = os.listdir("/proc")
    except OSError:  # it is not there, or we have no descriptor left to look
        return living
    for name in filter(str.isdecimal, names):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent, _group, session = file.read().rpartition(b")")[2].split()[:4]
            if state not in {b"Z", b"X"}:
                living[int(name)] = _ProcessInfo(int(parent), int(session))
    return living


def _has_variable(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as variables:
            return mark in variables.read().split(b"\0")
    except OSError:
        return False
