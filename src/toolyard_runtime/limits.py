"""The limits that the kernel enforces for each process. A worker sets them before it runs anything."""

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
"""One second in which the kernel sends a signal that says why it ends a process, before it kills it."""


_ULIMIT_OPTIONS = {
    resource.RLIMIT_CPU: ("t", 1),
    resource.RLIMIT_DATA: ("d", 1024),
    resource.RLIMIT_NPROC: ("u", 1),
    resource.RLIMIT_NOFILE: ("n", 1),
    resource.RLIMIT_FSIZE: ("f", 1024),
    resource.RLIMIT_CORE: ("c", 1024),
}
"""The option letter of bash's ulimit, and the unit it counts in."""


def apply_limits(limits: dict[str, int]) -> None:
    """Sets the limits for this process."""
    for which, soft, hard in _effective_limits(limits):
        resource.setrlimit(which, (soft, hard))


def ulimit_command(limits: dict[str, int]) -> str:
    """Returns a bash command that sets the limits: one process cannot set another's. Units are rounded up."""
    soft: list[str] = []
    hard: list[str] = []
    for which, low, high in _effective_limits(limits):
        letter, unit = _ULIMIT_OPTIONS[which]
        soft.append(f"-{letter} {-(-low // unit)}")
        hard.append(f"-{letter} {-(-high // unit)}")
    return f"ulimit -S {' '.join(soft)} && ulimit -H {' '.join(hard)} || exit; "


def _effective_limits(limits: dict[str, int]) -> list[tuple[int, int, int]]:
    """Returns each resource with its soft and hard limit, no higher than the current hard limit."""
    found: list[tuple[int, int, int]] = []
    for name, value in limits.items():
        which = _RESOURCES[name]
        _, most = resource.getrlimit(which)
        soft, hard = value, value + _GRACE.get(which, 0)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        found.append((which, soft, hard))
    return found
