"""What peers have published, as their reader finds it: a note each, and one quick look to see whether any changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from toolyard.core.agent_folder_names import folder_name
from toolyard.sharing.manifest import NOTE, Published, Step, read_note


class Peers:
    def __init__(self, shared: str, agents: Iterable[str]) -> None:
        self.shared = shared
        self.agents = tuple(agents)
        self._notes = tuple(os.path.join(self.place(agent), NOTE) for agent in self.agents)

    def place(self, agent: str) -> str:
        return os.path.join(self.shared, folder_name(agent))

    def published(self, agent: str) -> Published | None:
        return read_note(self.place(agent))

    def look(self) -> tuple[tuple[int, int], ...]:
        """Something that is another one whenever a peer has published since. A few microseconds for each of them."""
        return tuple(map(_look, self._notes))


class Following:
    """What peers publish from now on, each step once. Used from any thread; quick enough for the event loop's."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._look = peers.look()
        self._known = {agent: note.snapshot if (note := peers.published(agent)) else "" for agent in peers.agents}

    def steps(self) -> list[tuple[str, Step]]:
        """By agent, what is new since this was last asked."""
        if self._peers.look() == self._look:
            return []
        with self._lock:
            self._look = self._peers.look()
            found: list[tuple[str, Step]] = []
            for agent in self._peers.agents:
                note = self._peers.published(agent)
                if note is None or note.snapshot == self._known[agent]:
                    continue
                step = note.since(self._known[agent])
                self._known[agent] = note.snapshot
                if step is not None and step.total != 0:
                    found.append((agent, step))
            return found


def _look(note: str) -> tuple[int, int]:
    try:
        status = os.stat(note, follow_symlinks=False)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
