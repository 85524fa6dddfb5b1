"""Notifies an agent of new publications of its peers: one line per peer, with the agent's next result.

Checking costs a few microseconds and may run on the event loop's thread.
"""

from __future__ import annotations

from toolyard.core.agent_folder_names import folder_name
from toolyard.sharing.manifest import PublicationStep
from toolyard.sharing.peers import Peers, PublicationFollower

_MAX_NAMED_FILES = 3
"""Files that a line names."""


class PeerNotifications:
    """Collects the lines about publications that the agent has not seen."""

    def __init__(self, peers: Peers, prefix: str) -> None:
        """Publications up to now count as seen. `prefix` is the agent's path of the shared folder."""
        self._following = PublicationFollower(peers)
        self._prefix = prefix

    def new_lines(self) -> list[str]:
        """Returns the lines about new publications, each once."""
        return [f"[{describe_step(agent, step, self._prefix)}]" for agent, step in self._following.new_steps()]


def describe_step(agent: str, step: PublicationStep, prefix: str) -> str:
    """Describes a step: `agent_b changed 2 files: shared/agent_b/x, shared/agent_b/y`."""
    place = f"{prefix}/{folder_name(agent)}"
    if step.total is None:
        return f"{agent} published new work: {place}"
    named = ", ".join(f"{place}/{path}" for path in step.paths[:_MAX_NAMED_FILES])
    more = ", ..." if step.total > min(len(step.paths), _MAX_NAMED_FILES) else ""
    return f"{agent} changed {step.total} file{'s' * (step.total != 1)}: {named}{more}"
