"""Finds where this process may create control groups, from the kernel's own tables.

A location is always this process's own group, so the limits on this process apply to everything it starts. Only
`enable_controllers` writes anything. Version 2 needs that: a group whose children have limits may not contain
processes itself, so this process moves into a leaf of its group, if it is alone there. It never moves other
processes.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

WANTED_CONTROLLERS = frozenset({"memory", "pids"})
_LEAF = "toolyard-server"
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class CgroupLocation:
    """The folder of our own group in one hierarchy, and which of the wanted controllers that hierarchy has."""

    folder: str
    controllers: frozenset[str]
    unified: bool


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    folder: str
    unified: bool
    options: frozenset[str]


def find_cgroups(proc_folder: str = "/proc/self") -> tuple[CgroupLocation, ...]:
    """Returns every hierarchy that has a wanted controller, for the process whose /proc folder is `proc_folder`."""
    try:
        with open(f"{proc_folder}/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
            mounts = tuple(_cgroup_mounts(table))
        with open(f"{proc_folder}/cgroup", encoding="utf-8", errors="surrogateescape") as groups:
            rows = [row.rstrip("\n").split(":", 2) for row in groups]
    except OSError:
        return ()
    found: list[CgroupLocation] = []
    for _, names, path in rows:
        controllers = frozenset(names.split(",")) & WANTED_CONTROLLERS
        if controllers:
            folder = _group_folder((m for m in mounts if controllers <= m.options), path)
        elif not names:
            folder = _parent_of_leaf(_group_folder((m for m in mounts if m.unified), path))
            controllers = read_words(f"{folder}/cgroup.controllers") & WANTED_CONTROLLERS if folder else controllers
        else:
            continue
        if folder and controllers:
            found.append(CgroupLocation(folder, controllers, unified=not names))
    return tuple(found)


def _cgroup_mounts(table: Iterator[str]) -> Iterator[_Mount]:
    # 36 35 0:30 /root/of/mount /where/it/is rw,nosuid - cgroup cgroup rw,memory
    for row in table:
        left, found, right = row.partition(" - ")
        fields, described = left.split(), right.split()
        if found and len(fields) >= 5 and len(described) >= 3 and described[0] in {"cgroup", "cgroup2"}:
            root, folder = (_OCTAL.sub(lambda m: chr(int(m[1], 8)), field) for field in fields[3:5])
            yield _Mount(root, folder, described[0] == "cgroup2", frozenset(described[2].split(",")))


def _group_folder(mounts: Iterator[_Mount], path: str) -> str | None:
    """Returns where the group `path` is mounted; None if it is not, or lies outside our namespace (`/..`)."""
    for mount in mounts:
        root = mount.root.rstrip("/")
        if f"{path}/".startswith(f"{root}/") and ".." not in path.split("/"):
            return mount.folder.rstrip("/") + path[len(root) :].rstrip("/")
    return None


def _parent_of_leaf(folder: str | None) -> str | None:
    return os.path.dirname(folder) if folder and os.path.basename(folder) == _LEAF else folder


def enable_controllers(location: CgroupLocation) -> frozenset[str]:
    """Enables the controllers for children of this group and returns them. Raises OSError if that is impossible."""
    if not location.unified:
        return location.controllers
    switch = f"{location.folder}/cgroup.subtree_control"
    missing = location.controllers - read_words(switch)
    if missing:
        order = " ".join(f"+{name}" for name in sorted(missing))
        try:
            write_control_file(switch, order)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            _move_to_leaf(location.folder)
            write_control_file(switch, order)
    return read_words(switch) & WANTED_CONTROLLERS


def _move_to_leaf(folder: str) -> None:
    ours = str(os.getpid())
    if read_words(f"{folder}/cgroup.procs") != frozenset({ours}):
        raise OSError(errno.EBUSY, "other processes live in this group", folder)
    leaf = f"{folder}/{_LEAF}"
    os.makedirs(leaf, exist_ok=True)
    write_control_file(f"{leaf}/cgroup.procs", ours)


def read_words(path: str) -> frozenset[str]:
    """Returns the words of a control file; none if it is missing."""
    try:
        with open(path, encoding="ascii") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()


def write_control_file(path: str, text: str) -> None:
    """Writes `text` to an existing control file."""
    # Without O_CREAT: a missing control file must be an error, not a new file.
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)
