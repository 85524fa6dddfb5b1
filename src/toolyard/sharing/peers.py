"""Reads what peers have published: a manifest each, and a quick check whether any has changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from toolyard.core.agent_folder_names import folder_name
from toolyard.sharing.manifest import MANIFEST_FILE, PublicationManifest, PublicationStep, read_manifest


class Peers:
    """The published trees of other agents."""

    def __init__(self, shared: str, agents: Iterable[str]) -> None:
        self.shared = shared
        self.agents = tuple(agents)
        self._notes = tuple(os.path.join(self.folder_of(agent), MANIFEST_FILE) for agent in self.agents)

    def folder_of(self, agent: str) -> str:
        """Returns the published folder of an agent."""
        return os.path.join(self.shared, folder_name(agent))

    def manifest_of(self, agent: str) -> PublicationManifest | None:
        """Returns the manifest of an agent's publication, or None."""
        return read_manifest(self.folder_of(agent))

    def publication_stamps(self) -> tuple[tuple[int, int], ...]:
        """Returns a value that changes whenever a peer publishes. Costs a few microseconds per peer."""
        return tuple(map(_file_stamp, self._notes))


class PublicationFollower:
    """Reports each new publication once. Thread-safe, and fast enough for the event loop's thread."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._last_stamps = peers.publication_stamps()
        self._seen_snapshots = {
            agent: note.snapshot if (note := peers.manifest_of(agent)) else "" for agent in peers.agents
        }

    def new_steps(self) -> list[tuple[str, PublicationStep]]:
        """Returns the agents' new steps since the last call."""
        if self._peers.publication_stamps() == self._last_stamps:
            return []
        with self._lock:
            self._last_stamps = self._peers.publication_stamps()
            found: list[tuple[str, PublicationStep]] = []
            for agent in self._peers.agents:
                note = self._peers.manifest_of(agent)
                if note is None or note.snapshot == self._seen_snapshots[agent]:
                    continue
                step = note.changes_since(self._seen_snapshots[agent])
                self._seen_snapshots[agent] = note.snapshot
                if step is not None and step.total != 0:
                    found.append((agent, step))
            return found


def _file_stamp(note: str) -> tuple[int, int]:
    try:
        status = os.stat(note, follow_symlinks=False)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
