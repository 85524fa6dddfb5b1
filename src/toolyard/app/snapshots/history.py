"""The snapshots of one workspace. Other folders' lie in the same store and are none of its business."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING

from toolyard.app.snapshots.telling import Listed
from toolyard.core.errors import ToolError, ValidationError
from toolyard.workspace.snapshots import LATEST, Damaged
from toolyard.workspace.snapshots.comparing import compare
from toolyard.workspace.snapshots.differences import top_of

if TYPE_CHECKING:
    from toolyard.workspace.snapshots import Snapshot, SnapshotStore
    from toolyard.workspace.snapshots.reading import ObjectReader

_MOST_COUNTED = 10_000
"""Changes of one snapshot; what has more is told as that many."""


class History:
    def __init__(self, store: SnapshotStore, root: str | None) -> None:
        """`root` None: of every folder."""
        self.store = store
        self._root = root

    def get(self, name: str) -> Snapshot:
        """By id, by the beginning of one, or "latest"."""
        every = self.store.list(self._root)
        found = every[:1] if name == LATEST else [each for each in every if name and each.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValidationError.of("snapshot", f'"{name}" begins more than one id', hint="Write more of it.")
        if not every:
            raise ToolError("There is no snapshot yet.", hint="One is taken before the first change, or on demand.")
        raise ToolError(
            f'There is no snapshot "{name}".', hint=f"List them to see their ids; the newest is {LATEST}."
        )

    def listed(self, most: int | None = None) -> list[Listed]:
        """The newest first, each with how much it changed."""
        every = self.store.list(self._root)
        roots: dict[str, list[Snapshot]] = {}
        for snapshot in every:
            roots.setdefault(snapshot.root, []).append(snapshot)
        wanted = every[:most]
        before = {new.id: old for group in roots.values() for new, old in pairwise(group)}
        with self.store.reader() as reader:
            return [Listed(each, _changes(reader, before.get(each.id), each)) for each in wanted]


def _changes(reader: ObjectReader, old: Snapshot | None, new: Snapshot) -> int | None:
    if old is None:
        return None
    try:
        return sum(1 for _ in islice(compare(reader, reader, (top_of(old), top_of(new))), _MOST_COUNTED))
    except Damaged:  # verify tells what is; a list is still a list
        return None
