"""What peers have published since this agent was last told: one line for each of them, with its next result.

Looking costs a few microseconds and may be done on the event loop's thread.
"""

from __future__ import annotations

import threading

from toolyard.workspace.layout import folder_name
from toolyard.workspace.sharing.notes import Step
from toolyard.workspace.sharing.peers import Peers

_NAMED = 3
"""Files that a line names."""


class News:
    def __init__(self, peers: Peers, prefix: str) -> None:
        """What is published by now is known. `prefix` is how the agent spells the shared folder."""
        self._peers = peers
        self._prefix = prefix
        self._lock = threading.Lock()
        self._look = peers.look()
        self._known = {agent: note.snapshot if (note := peers.published(agent)) else "" for agent in peers.agents}

    def lines(self) -> list[str]:
        """What is new, each told once."""
        if self._peers.look() == self._look:
            return []
        with self._lock:
            self._look = self._peers.look()
            said: list[str] = []
            for agent in self._peers.agents:
                note = self._peers.published(agent)
                if note is None or note.snapshot == self._known[agent]:
                    continue
                step = note.since(self._known[agent])
                self._known[agent] = note.snapshot
                if step is not None and step.total != 0:
                    said.append(f"[{told(agent, step, self._prefix)}]")
            return said


def told(agent: str, step: Step, prefix: str) -> str:
    """A step in words: `agent_b changed 2 files: shared/agent_b/x, shared/agent_b/y`."""
    place = f"{prefix}/{folder_name(agent)}"
    if step.total is None:
        return f"{agent} published new work: {place}"
    named = ", ".join(f"{place}/{path}" for path in step.paths[:_NAMED])
    more = ", ..." if step.total > min(len(step.paths), _NAMED) else ""
    return f"{agent} changed {step.total} file{'s' * (step.total != 1)}: {named}{more}"
