"""Room for what a team holds open: each agent some twenty descriptors, where a process has 1,024 unless it asks."""

from __future__ import annotations

import resource

from toolyard.core.errors import SystemFault

_FDS_PER_AGENT = 32
"""Of an agent: its folders, its audit log, its snapshots, its connection. Some twenty, and a few for a moment."""
_BASE_FDS = 256


def raise_fd_limit(agents: int) -> None:
    """Let this process hold open what so many agents need. Raises SystemFault where the system does not let it."""
    needed = _BASE_FDS + _FDS_PER_AGENT * agents
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemFault(
            f"{agents} agents need {needed:,} open files, and this process may have {hard:,}.",
            hint="Raise the limit (`ulimit -Hn`, or `LimitNOFILE=` of a service), or run fewer agents at once.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
