"""The common ancestor of one file in two agents' histories: the newest content that both have held.

Held is what a snapshot of an agent has at that path, and what one of them once merged from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolyard.sharing.provenance import Origin
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.store.models import Damaged, Snapshot
from toolyard.snapshots.store.object_reader import Trees
from toolyard.snapshots.store.objects import Entry, Kind


@dataclass(frozen=True, slots=True)
class Merged:
    """What each side merged of the other at the path in question, the newest first."""

    ours: Sequence[Origin] = ()
    theirs: Sequence[Origin] = ()


class History:
    """One agent's snapshots, the newest first, looked into by path. Folders that stayed are read once."""

    def __init__(self, trees: Trees, snapshots: Sequence[Snapshot]) -> None:
        self._trees = trees
        self._snapshots = snapshots
        self._folders: dict[bytes, dict[bytes, Entry]] = {}

    def versions(self, path: bytes) -> list[tuple[Snapshot, Entry | None]]:
        """The file at `path` in each snapshot, without repetitions of the same content."""
        found: list[tuple[Snapshot, Entry | None]] = []
        for snapshot in self._snapshots:
            entry = self.entry(snapshot, path)
            if found and found[-1][1] == entry:
                found[-1] = (snapshot, entry)  # since when it has been so
            else:
                found.append((snapshot, entry))
        return found

    def entry(self, snapshot: Snapshot, path: bytes) -> Entry | None:
        found: Entry | None = top_of(snapshot)
        for name in path.split(b"/"):
            if found is None or found.kind is not Kind.FOLDER:
                return None
            found = self._inside(found.ref).get(name)
        return found if found is not None and found.is_file else None

    def _inside(self, tree: bytes) -> dict[bytes, Entry]:
        known = self._folders.get(tree)
        if known is None:
            try:
                known = {entry.name: entry for entry in self._trees.entries(tree)}
            except Damaged:  # what cannot be read is no ancestor
                known = {}
            self._folders[tree] = known
        return known


def ancestor(ours: History, theirs: History, path: bytes, peer_path: bytes, merged: Merged) -> Entry | None:
    """The newest content that both sides have held; None when there is none."""
    own = [entry for _, entry in ours.versions(path) if entry is not None]
    mine = {entry.ref: entry for entry in reversed(own)}
    versions = theirs.versions(peer_path)
    taken = {origin.digest for origin in merged.ours}
    given = [(origin.time_ns, mine[origin.digest]) for origin in merged.theirs if origin.digest in mine]
    for snapshot, entry in versions:
        while given and given[0][0] > snapshot.time_ns and (entry is None or entry.ref not in mine):
            # After this state of theirs they merged something of ours: that is newer than all that follows.
            return given[0][1]
        if entry is not None and (entry.ref in mine or entry.ref in taken):
            # The mode has a history of its own: where only that was changed, what both had before is the ancestor.
            modes = {one.mode for one in own if one.ref == entry.ref}
            same = (one for _, one in versions if one is not None and one.ref == entry.ref and one.mode in modes)
            return next(same, entry)
    return given[0][1] if given else None
