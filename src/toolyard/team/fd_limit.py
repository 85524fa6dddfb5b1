"""Raises the limit of open files for a team: an agent needs about twenty, and the default limit is 1,024."""

from __future__ import annotations

import resource

from toolyard.core.errors import SystemFault

_FDS_PER_AGENT = 32
"""Per agent: folders, audit log, snapshots, connection. About twenty, and a few short-lived ones."""
_BASE_FDS = 256


def raise_fd_limit(agents: int) -> None:
    """Raises the soft limit for that many agents. Raises SystemFault if the hard limit is too low."""
    needed = _BASE_FDS + _FDS_PER_AGENT * agents
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SystemFault(
            f"{agents} agents need {needed:,} open files, but this process is limited to {hard:,}.",
            hint="Raise the limit (`ulimit -Hn`, or `LimitNOFILE=` of a service), or run fewer agents at once.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
