"""Processes as the system shows them: who descends from whom, and the memory they take."""

from __future__ import annotations

import contextlib
import os


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
