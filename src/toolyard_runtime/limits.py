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


def hold(pid: int, limits: dict[str, int]) -> None:
    for name, value in limits.items():
        which = _RESOURCES[name]
        _, hard = resource.getrlimit(which)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, which, (most, most))
