"""Processes as the system shows them: who descends from whom, and the memory they take."""

from __future__ import annotations

import contextlib
import os
import time

# How the kernel names the clock of another process, as clock_getcpuclockid(3) does: it counts nanoseconds, where
# /proc counts ticks of ten milliseconds, which is longer than what is measured here.
_CLOCK_KIND_BITS = 3
_WHOLE_PROCESS = 2


def descendants(root: int) -> set[int]:
    """All processes that `root` started, and those that they started."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            stat = file.read()
            # The program's name is in brackets and may itself hold brackets and blanks.
            parents[int(name)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
    found: set[int] = set()
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def proportional_kb(pids: set[int]) -> int:
    """Their memory: what they share with others counts in parts. PermissionError where one is somebody else's."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total


def resident_kb(pid: int) -> int:
    """What of a process is in memory, shared or not."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def processor_seconds(pid: int) -> float:
    """What a process has worked, in all of its threads, those that ended too. OSError where there is none."""
    return time.clock_gettime((~pid << _CLOCK_KIND_BITS) | _WHOLE_PROCESS)
