"""Room for what a team holds open: each agent some twenty descriptors, where a process has 1,024 unless it asks."""

from __future__ import annotations

import resource

from toolyard.core.errors import SystemFault

_EACH = 32
"""Of an agent: its folders, its audit log, its snapshots, its connection. Some twenty, and a few for a moment."""
_OTHERS = 256


def make_room(agents: int) -> None:
    """Let this process hold open what so many agents need. Raises SystemFault where the system does not let it."""
    needed = _OTHERS + _EACH * agents
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemFault(
            f"{agents} agents need {needed:,} open files, and this process may have {hard:,}.",
            hint="Raise the limit (`ulimit -Hn`, or `LimitNOFILE=` of a service), or run fewer agents at once.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
