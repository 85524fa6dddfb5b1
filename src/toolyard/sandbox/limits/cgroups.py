"""Control groups: limits on memory and processes that also bind root and everything a process starts.

The creator of a `Cgroup` owns it and closes it: processes that remain inside are killed and the group is removed.
Groups are children of this process's own group, and their names contain the owner's pid namespace, pid and start
time. A killed server cannot close its groups, so the next server that creates a group in the same place removes them.
Groups with any other name are never touched.

Versions 1 and 2 are supported, and mixtures of them. If nothing is writable, `Cgroup.create` returns None.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from toolyard.core.errors import SystemFault
from toolyard.sandbox.limits import cgroup_paths
from toolyard.sandbox.limits.cgroup_paths import CgroupLocation, read_words, write_control_file

_CLOSE_SECONDS: Final = 1.0
_SWEEP_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.002
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_OWN_GROUP_NAME = re.compile(r"toolyard-(?P<space>\d+)-(?P<pid>\d+)-(?P<began>\d+)-[A-Za-z0-9_]+-\d+")
_START_TIME_FIELD = 19  # the start time, counted from the state, which follows the parenthesised name
_LIMIT_NAMES = {"memory": "memory", "pids": "processes"}
_group_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _HierarchyGroup:
    """The group in one hierarchy, and the limits that it enforces there."""

    folder: str
    controllers: frozenset[str]
    unified: bool


class Cgroup:
    """One group. Added processes, and the children that they start afterwards, share its limits."""

    def __init__(self, groups: Sequence[_HierarchyGroup]) -> None:
        self._groups = tuple(groups)
        self._reported_kills = 0
        self._reported_refusals = 0
        self.enforced_limits = frozenset(_LIMIT_NAMES[name] for part in groups for name in part.controllers)
        """Which of "memory" and "processes" the kernel enforces here."""

    @classmethod
    def create(
        cls, *, memory_bytes: int, processes: int, name: str, locations: Sequence[CgroupLocation] | None = None
    ) -> Cgroup | None:
        """Creates a group with as many of these limits as possible; None if no limit can be set."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be part of a group's name: letters, digits and _ only")
        full_name = f"toolyard-{_pid_namespace()}-{os.getpid()}-{_start_time('self')}-{name}-{next(_group_numbers)}"
        parts: list[_HierarchyGroup] = []
        for place in cgroup_paths.find_cgroups() if locations is None else locations:
            with contextlib.suppress(OSError):  # read-only, another user's, or occupied: no limit from this hierarchy
                controllers = cgroup_paths.enable_controllers(place)
                remove_stale_groups(place.folder)
                part = _HierarchyGroup(f"{place.folder}/{full_name}", controllers, place.unified)
                held = _create_group(part, memory_bytes, processes)
                if held:
                    parts.append(_HierarchyGroup(part.folder, held, part.unified))
        return cls(parts) if parts else None

    def add(self, pid: int) -> None:
        """Adds a process. Its existing children stay outside, so add it before it starts any."""
        try:
            for part in self._groups:
                write_control_file(f"{part.folder}/cgroup.procs", str(pid))
        except OSError as error:
            raise SystemFault(
                f"Process {pid} could not be put into its control group: {error.strerror}.",
                hint="The run was not started. Run `toolyard doctor` to see what this machine offers.",
            ) from error

    def processes(self) -> list[int]:
        """Returns the pids inside, in ascending order."""
        return sorted({pid for part in self._groups for pid in _members(part.folder)})

    def out_of_memory_kills(self) -> int:
        """Returns how many processes the kernel has killed here because the memory limit was reached."""
        return sum(_oom_kill_count(part) for part in self._groups if "memory" in part.controllers)

    def was_out_of_memory(self) -> bool:
        """Whether the kernel has killed a process here for its memory since the last call."""
        before, self._reported_kills = self._reported_kills, self.out_of_memory_kills()
        return self._reported_kills > before

    def was_out_of_processes(self) -> bool:
        """Whether the kernel has refused a new process here since the last call."""
        refused = sum(
            _event_count(f"{part.folder}/pids.events", b"max") for part in self._groups if "pids" in part.controllers
        )
        before, self._reported_refusals = self._reported_refusals, refused
        return refused > before

    def close(self) -> bool:
        """Kills the remaining processes and removes the group, within about a second. Returns whether it is gone."""
        return _remove_groups([part.folder for part in self._groups], _CLOSE_SECONDS)


def _create_group(group: _HierarchyGroup, memory_bytes: int, processes: int) -> frozenset[str]:
    """Creates the group and returns the limits that were set; removes it again if none was."""
    os.mkdir(group.folder)
    held = frozenset(name for name in group.controllers if _set_limit(group, name, memory_bytes, processes))
    if not held:
        os.rmdir(group.folder)
    return held


def _set_limit(group: _HierarchyGroup, controller: str, memory_bytes: int, processes: int) -> bool:
    try:
        if controller == "pids":
            write_control_file(f"{group.folder}/pids.max", str(processes))
            return True
        hard, swap, swap_bytes = (
            ("memory.max", "memory.swap.max", 0)
            if group.unified
            else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", memory_bytes)  # memory and swap together
        )
        write_control_file(f"{group.folder}/{hard}", str(memory_bytes))
        with contextlib.suppress(FileNotFoundError):  # the kernel does not account for swap
            write_control_file(f"{group.folder}/{swap}", str(swap_bytes))
    except OSError:
        return False
    return True


def _oom_kill_count(group: _HierarchyGroup) -> int:
    return _event_count(f"{group.folder}/{'memory.events' if group.unified else 'memory.oom_control'}", b"oom_kill")


def _event_count(path: str, name: bytes) -> int:
    try:
        with open(path, "rb") as file:
            rows = dict(row.split() for row in file)
        return int(rows.get(name, b"0"))
    except (OSError, ValueError):
        return 0


def remove_stale_groups(folder: str) -> None:
    """Removes the groups below `folder` whose owner is gone."""
    stale = [f"{folder}/{name}" for name in os.listdir(folder) if _is_stale(name)]
    if stale:
        _remove_groups(stale, _SWEEP_SECONDS)


def _is_stale(name: str) -> bool:
    match = _OWN_GROUP_NAME.fullmatch(name)
    # A pid means nothing in another namespace: the servers there clean up their own groups.
    if match is None or int(match["space"]) != _pid_namespace():
        return False
    try:
        os.kill(int(match["pid"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # a process of another user has this pid; it may have been reused
    began = _start_time(match["pid"])
    return began is not None and began != int(match["began"])


@cache
def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_time(pid: str) -> int | None:
    """Returns when a process started, in the kernel's ticks; None if that is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[_START_TIME_FIELD])
    except (OSError, IndexError):
        return None


def _remove_groups(folders: Sequence[str], seconds: float) -> bool:
    """Empties and removes these groups and their children. Groups that resist stay for the next sweep."""
    left = [found for folder in folders for found in _group_tree(folder)]
    deadline = time.monotonic() + seconds
    for folder in left:
        for name, order in (
            ("pids.max", "0"),
            ("cgroup.kill", "1"),
        ):  # no more forks; version 2 can kill the whole group
            with contextlib.suppress(OSError):
                write_control_file(f"{folder}/{name}", order)
    while True:
        for folder in left:
            for pid in _members(folder):
                _kill_in(folder, pid)
        left = [folder for folder in left if not _remove_group(folder)]
        if not left or time.monotonic() >= deadline:
            return not left
        time.sleep(_POLL_SECONDS)


def _group_tree(folder: str) -> Iterator[str]:
    """Yields the group and those below it, deepest first."""
    for found, _, _ in os.walk(folder, topdown=False):
        yield found


def _members(folder: str) -> list[int]:
    return [
        pid for word in read_words(f"{folder}/cgroup.procs") if (pid := int(word)) > 0
    ]  # 0: a process of another namespace


def _kill_in(folder: str, pid: int) -> None:
    """Kills `pid` if it is still in this group: the number may belong to another process by now."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as groups:
                if any(os.path.basename(folder) in row.rstrip("\n").split("/") for row in groups):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _remove_group(folder: str) -> bool:
    """Removes an empty group. Returns whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
