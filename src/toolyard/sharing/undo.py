"""What has to be restored to undo a merge, and nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable

from toolyard.snapshots.store.object_reader import Trees
from toolyard.snapshots.store.objects import Entry, Kind


def undo_paths(changed: Iterable[bytes], before: Entry, trees: Trees) -> list[bytes]:
    """Each path that was changed, or the folder that came with it: the topmost that `before` does not hold."""
    known: dict[bytes, dict[bytes, Entry]] = {}

    def inside(folder: Entry) -> dict[bytes, Entry]:
        if folder.kind is not Kind.FOLDER:
            return {}
        if folder.ref not in known:
            known[folder.ref] = {entry.name: entry for entry in trees.entries(folder.ref)}
        return known[folder.ref]

    def topmost(path: bytes) -> bytes:
        names = path.split(b"/")
        entry = before
        for at, name in enumerate(names, 1):
            found = inside(entry).get(name)
            if found is None:
                return b"/".join(names[:at])
            entry = found
        return path

    return sorted({topmost(path) for path in changed})
