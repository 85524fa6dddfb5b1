"""Finds the common ancestor of a file in two agents' histories: the newest content that both have held.

An agent has held a content if one of its snapshots has it at that path, or if it merged it from the other agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolyard.sharing.provenance import MergeOrigin
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.store.models import DamagedObjectError, Snapshot
from toolyard.snapshots.store.object_reader import TreeReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry


@dataclass(frozen=True, slots=True)
class MergeRecords:
    """Earlier merges of a path from the other side, the newest first."""

    ours: Sequence[MergeOrigin] = ()
    theirs: Sequence[MergeOrigin] = ()


class AgentHistory:
    """The snapshots of one agent, the newest first, searched by path. Unchanged folders are read once."""

    def __init__(self, trees: TreeReader, snapshots: Sequence[Snapshot]) -> None:
        self._trees = trees
        self._snapshots = snapshots
        self._folders: dict[bytes, dict[bytes, TreeEntry]] = {}

    def versions(self, path: bytes) -> list[tuple[Snapshot, TreeEntry | None]]:
        """Returns the file at `path` in each snapshot, without consecutive duplicates."""
        found: list[tuple[Snapshot, TreeEntry | None]] = []
        for snapshot in self._snapshots:
            entry = self.entry(snapshot, path)
            if found and found[-1][1] == entry:
                found[-1] = (snapshot, entry)  # the oldest snapshot with this content
            else:
                found.append((snapshot, entry))
        return found

    def entry(self, snapshot: Snapshot, path: bytes) -> TreeEntry | None:
        """Returns the file at `path` in a snapshot, or None."""
        found: TreeEntry | None = root_entry(snapshot)
        for name in path.split(b"/"):
            if found is None or found.kind is not EntryKind.FOLDER:
                return None
            found = self._folder_entries(found.ref).get(name)
        return found if found is not None and found.is_file else None

    def _folder_entries(self, tree: bytes) -> dict[bytes, TreeEntry]:
        known = self._folders.get(tree)
        if known is None:
            try:
                known = {entry.name: entry for entry in self._trees.entries(tree)}
            except DamagedObjectError:  # unreadable content cannot be an ancestor
                known = {}
            self._folders[tree] = known
        return known


def common_ancestor(
    ours: AgentHistory, theirs: AgentHistory, path: bytes, peer_path: bytes, merged: MergeRecords
) -> TreeEntry | None:
    """Returns the newest content that both sides have held, or None."""
    own = [entry for _, entry in ours.versions(path) if entry is not None]
    mine = {entry.ref: entry for entry in reversed(own)}
    versions = theirs.versions(peer_path)
    taken = {origin.digest for origin in merged.ours}
    given = [(origin.time_ns, mine[origin.digest]) for origin in merged.theirs if origin.digest in mine]
    for snapshot, entry in versions:
        while given and given[0][0] > snapshot.time_ns and (entry is None or entry.ref not in mine):
            # They merged our content after this state, so it is newer than all remaining candidates.
            return given[0][1]
        if entry is not None and (entry.ref in mine or entry.ref in taken):
            # Modes have their own history: if only the mode changed, the version before that is the ancestor.
            modes = {one.mode for one in own if one.ref == entry.ref}
            same = (one for _, one in versions if one is not None and one.ref == entry.ref and one.mode in modes)
            return next(same, entry)
    return given[0][1] if given else None
