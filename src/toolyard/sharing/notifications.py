"""What peers have published since this agent was last told: one line for each of them, with its next result.

Looking costs a few microseconds and may be done on the event loop's thread.
"""

from __future__ import annotations

from toolyard.core.agent_folder_names import folder_name
from toolyard.sharing.manifest import Step
from toolyard.sharing.peers import Following, Peers

_NAMED = 3
"""Files that a line names."""


class News:
    def __init__(self, peers: Peers, prefix: str) -> None:
        """What is published by now is known. `prefix` is how the agent spells the shared folder."""
        self._following = Following(peers)
        self._prefix = prefix

    def lines(self) -> list[str]:
        """What is new, each told once."""
        return [f"[{told(agent, step, self._prefix)}]" for agent, step in self._following.steps()]


def told(agent: str, step: Step, prefix: str) -> str:
    """A step in words: `agent_b changed 2 files: shared/agent_b/x, shared/agent_b/y`."""
    place = f"{prefix}/{folder_name(agent)}"
    if step.total is None:
        return f"{agent} published new work: {place}"
    named = ", ".join(f"{place}/{path}" for path in step.paths[:_NAMED])
    more = ", ..." if step.total > min(len(step.paths), _NAMED) else ""
    return f"{agent} changed {step.total} file{'s' * (step.total != 1)}: {named}{more}"
