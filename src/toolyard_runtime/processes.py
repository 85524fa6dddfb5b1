"""Finds and ends the processes that a run left behind.

The supervisor is the first process of its namespace, or a subreaper, so every orphan becomes its child. A child that
the supervisor did not fork itself is therefore a leftover: of a run that is over, or of one that is being ended.
"""

from __future__ import annotations

import os
from time import monotonic

SIGKILL = 9
_SIGTERM = 15
_SIGINT = 2
_KILL_LOOP_SECONDS = 0.5
_GIVE_UP_SECONDS = 5.0
_STATUS_BYTES = 4096
_MY_CHILDREN = f"/proc/self/task/{os.getpid()}/children"


def on_child_exit(number: int, frame: object) -> None:
    """Handles SIGCHLD only so that it is delivered: the wake-up descriptor notifies the loop."""


def child_pids() -> set[int]:
    """Returns the pids of this process's children, including zombies."""
    try:
        with open(_MY_CHILDREN, "rb", buffering=0) as file:
            return {int(pid) for pid in file.read().split()}
    except OSError:  # a kernel without that file
        me = os.getpid()
        return {pid for pid, parent in _parents().items() if parent == me}


def has_children(pid: int) -> bool:
    """Whether another process has children; True if that cannot be determined."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                if file.read(1):
                    return True
    except OSError:
        return True
    return False


def is_idle(pid: int) -> bool:
    """Whether another process waits and cannot act meanwhile: it has no thread, child or signal handler.

    Python handles SIGINT, which another process would have to send. False if that cannot be determined.
    """
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            lines = dict(line.split(b":\t", 1) for line in file.read(_STATUS_BYTES).splitlines() if b":\t" in line)
        if not lines[b"State"].startswith(b"S") or lines[b"Threads"] != b"1":
            return False
        return not int(lines[b"SigCgt"], 16) & ~(1 << _SIGINT - 1) and not has_children(pid)
    except (OSError, LookupError, ValueError):
        return False


def terminate_tree(root: int) -> None:
    """Sends SIGTERM to a process and all its descendants, so that their handlers can clean up.

    The process itself comes first: a shell whose children end before it continues with its next command.
    """
    for pid in (root, *_descendants({root})):
        _signal(pid, _SIGTERM)


def kill_tree(root: int) -> None:
    """Kills a process and all its descendants. Orphans that appear meanwhile become our children."""
    for pid in (root, *_descendants({root})):
        _kill_group(pid)
        _signal(pid, SIGKILL)


def kill_leftovers(known: set[int], *, alone: bool) -> tuple[int, bool]:
    """Kills every child that is not in `known`, with all its descendants.

    Returns how many leftovers there were, and whether the known children were killed with them. `alone` means that no
    other run is active: one signal to all processes then ends them at once, leaving no time to fork. It is also the
    last resort if a tree forks faster than it can be killed. If unrelated processes run beside us, the process groups
    of the leftovers are killed instead.
    """
    left = child_pids() - known
    if not left:
        return 0, False
    ended: set[int] = set()
    is_first = os.getpid() == 1
    until = monotonic() + (_KILL_LOOP_SECONDS if is_first else _GIVE_UP_SECONDS)
    while left:
        found = left | _descendants(left)
        ended |= found
        if is_first and (alone or monotonic() > until):
            os.kill(-1, SIGKILL)
            return len(ended), True
        for pid in found:
            _kill_group(pid)
            _signal(pid, SIGKILL)
        _reap(left)
        left = child_pids() - known
        if monotonic() > until:
            break
    return len(ended), False


def _reap(pids: set[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            continue


def _kill_group(pid: int) -> None:
    """Kills a process's whole group at once, leaving no time to fork. Never our own group."""
    try:
        group = os.getpgid(pid)
        if group not in {0, os.getpgrp()}:
            os.killpg(group, SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _descendants(roots: set[int]) -> set[int]:
    parents = _parents()
    below: set[int] = set()
    frontier = roots
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - below
        below |= frontier
    return below


def _parents() -> dict[int, int]:
    """Returns each visible process with its parent."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                stat = file.read(1024)
        except OSError:
            continue
        # The program's name is in parentheses and may itself contain parentheses and spaces.
        found[int(name)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return found
