"""The limits that the kernel holds for each process. A worker gets them while it waits, before it runs anything."""

from __future__ import annotations

import resource

_RESOURCES = {
    "cpu_seconds": resource.RLIMIT_CPU,
    "memory_bytes": resource.RLIMIT_DATA,  # RLIMIT_AS would stop programs that reserve more than they use (Node, Go)
    "processes": resource.RLIMIT_NPROC,
    "open_files": resource.RLIMIT_NOFILE,
    "file_bytes": resource.RLIMIT_FSIZE,
    "core_bytes": resource.RLIMIT_CORE,
}

_GRACE = {resource.RLIMIT_CPU: 1}
"""A second in which the kernel says with a signal of its own why it ends a process, before it just kills it."""


_ULIMIT_OPTIONS = {
    resource.RLIMIT_CPU: ("t", 1),
    resource.RLIMIT_DATA: ("d", 1024),
    resource.RLIMIT_NPROC: ("u", 1),
    resource.RLIMIT_NOFILE: ("n", 1),
    resource.RLIMIT_FSIZE: ("f", 1024),
    resource.RLIMIT_CORE: ("c", 1024),
}
"""The letter by which bash knows it, and the unit it counts in."""


def apply_limits(limits: dict[str, int]) -> None:
    """Set them for this process."""
    for which, soft, hard in _effective_limits(limits):
        resource.setrlimit(which, (soft, hard))


def ulimit_command(limits: dict[str, int]) -> str:
    """A line by which bash sets them for itself: nobody inside may set another's. Units are rounded up."""
    soft: list[str] = []
    hard: list[str] = []
    for which, low, high in _effective_limits(limits):
        letter, unit = _ULIMIT_OPTIONS[which]
        soft.append(f"-{letter} {-(-low // unit)}")
        hard.append(f"-{letter} {-(-high // unit)}")
    return f"ulimit -S {' '.join(soft)} && ulimit -H {' '.join(hard)} || exit; "


def _effective_limits(limits: dict[str, int]) -> list[tuple[int, int, int]]:
    """Each resource with its soft and its hard limit; never more than there is to give away."""
    found: list[tuple[int, int, int]] = []
    for name, value in limits.items():
        which = _RESOURCES[name]
        _, most = resource.getrlimit(which)
        soft, hard = value, value + _GRACE.get(which, 0)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        found.append((which, soft, hard))
    return found
