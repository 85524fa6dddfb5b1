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


def hold(pid: int, limits: dict[str, int]) -> None:
    for name, value in limits.items():
        which = _RESOURCES[name]
        _, hard = resource.getrlimit(which)
        soft, last = value, value + _GRACE.get(which, 0)
        if hard != resource.RLIM_INFINITY:
            soft, last = min(soft, hard), min(last, hard)
        resource.prlimit(pid, which, (soft, last))
