"""What peers have published, as their reader finds it: a note each, and one quick look to see whether any changed."""

from __future__ import annotations

import os
from collections.abc import Iterable

from toolyard.workspace.layout import folder_name
from toolyard.workspace.sharing.notes import NOTE, Published, read_note


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


def _look(note: str) -> tuple[int, int]:
    try:
        status = os.stat(note, follow_symlinks=False)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
