"""Finds the paths to restore to undo a merge."""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.snapshots.store.object_reader import TreeReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry


def paths_to_restore(changed: Iterable[bytes], before: TreeEntry, trees: TreeReader) -> list[bytes]:
    """Returns each changed path, or the topmost new folder that contains it: one that `before` does not have."""
    known: dict[bytes, dict[bytes, TreeEntry]] = {}

    def folder_entries(folder: TreeEntry) -> dict[bytes, TreeEntry]:
        if folder.kind is not EntryKind.FOLDER:
            return {}
        if folder.ref not in known:
            known[folder.ref] = {entry.name: entry for entry in trees.entries(folder.ref)}
        return known[folder.ref]

    def topmost_missing(path: bytes) -> bytes:
        names = path.split(b"/")
        entry = before
        for at, name in enumerate(names, 1):
            found = folder_entries(entry).get(name)
            if found is None:
                return b"/".join(names[:at])
            entry = found
        return path

    return sorted({topmost_missing(path) for path in changed})
