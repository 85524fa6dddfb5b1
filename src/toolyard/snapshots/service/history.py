"""The snapshots of one workspace. The store also contains those of other folders, which are left out here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from toolyard.core.errors import ToolError, ValidationError
from toolyard.snapshots import LATEST, DamagedObjectError, DiffLimits
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.diff.tree_diff import compare_trees
from toolyard.snapshots.service.format import HistoryEntry
from toolyard.snapshots.store.object_reader import find_entry

if TYPE_CHECKING:
    from toolyard.snapshots import Snapshot, SnapshotStore, TreeEntry
    from toolyard.snapshots.store.object_reader import ObjectReader

_BACK = re.compile(rf"{LATEST}(?:~([0-9]{{1,9}}))?")
_RESTORING = ("before restoring ", "after restoring ")
_BY_TOOL = "after snapshot_restore"
_MOST_COUNTED = 10_000
"""The number of changes of one snapshot is counted up to this limit."""


class SnapshotHistory:
    """Finds and lists the snapshots of one folder."""

    def __init__(self, store: SnapshotStore, root: str | None) -> None:
        """`root` None: the snapshots of every folder."""
        self.store = store
        self._root = root

    def get(self, name: str, *, any_folder: bool = False) -> Snapshot:
        """Returns a snapshot by id, by a prefix of its id, "latest", or "latest~2".

        "latest~2" is the second snapshot before the latest; snapshots taken by restores are not counted. A snapshot
        of another folder is refused, unless `any_folder` is set and no snapshot of this folder matches.
        """
        every = self.store.list(self._root)
        back = _steps_back(name)
        if back is not None and every:
            return _nth_before_latest(every, back)
        found = [snapshot for snapshot in every if name and snapshot.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValidationError.of(
                "snapshot", f'"{name}" matches several snapshots', hint="Use more characters of the id."
            )
        others = [snapshot for snapshot in self.store.list() if name and snapshot.id.startswith(name)]
        if len(others) == 1 and any_folder:
            return others[0]
        if len(others) == 1:
            owner = f"agent {others[0].agent}" if others[0].agent else "another folder"
            raise ToolError(
                f"Snapshot {others[0].id} belongs to {owner}, not to this workspace.",
                hint="List the snapshots of this workspace to see their ids.",
            )
        if not every:
            raise ToolError("There is no snapshot yet.", hint="One is taken before the first change, or on demand.")
        raise ToolError(
            f'There is no snapshot "{name}".', hint=f"List them to see their ids; the newest is {LATEST}."
        )

    def newest_different(self, check: Callable[[], None], *, with_git: bool) -> Snapshot | None:
        """Returns the newest snapshot whose restore would change the current folder."""
        limits = DiffLimits(changes=1, chars=0, skip_git=not with_git)
        same: set[tuple[bytes, int]] = set()
        for snapshot in self.store.list(self._root):
            look = (snapshot.tree, snapshot.mode)
            if look not in same and self._differs(snapshot, limits, check):
                return snapshot
            same.add(look)
        return None

    def _differs(self, snapshot: Snapshot, limits: DiffLimits, check: Callable[[], None]) -> bool:
        return self.store.diff(snapshot.id, root=snapshot.root, limits=limits, check=check).total > 0

    def entries(self, limit: int | None = None, path: bytes = b"") -> list[HistoryEntry]:
        """Returns the snapshots, newest first, with their number of changes; with `path` those that changed it."""
        every = self.store.list(self._root)
        roots: dict[str, list[Snapshot]] = {}
        for snapshot in every:
            roots.setdefault(snapshot.root, []).append(snapshot)
        before = {new.id: old for group in roots.values() for new, old in pairwise(group)}
        with self.store.reader() as reader:
            changed = (
                snapshot
                for snapshot in every
                if not path or _changes_path(reader, before.get(snapshot.id), snapshot, path)
            )
            wanted = list(islice(changed, limit))
            return [
                HistoryEntry(snapshot, _count_changes(reader, before.get(snapshot.id), snapshot))
                for snapshot in wanted
            ]


def is_latest(name: str) -> bool:
    """Returns whether a name counts back from the newest snapshot, whichever agent took it."""
    return _steps_back(name) is not None


def _steps_back(name: str) -> int | None:
    match = _BACK.fullmatch(name)
    return int(match[1] or 0) if match is not None else None


def _nth_before_latest(newest: Sequence[Snapshot], back: int) -> Snapshot:
    if back == 0:
        return newest[0]
    # A restore takes snapshots itself. If they counted, repeating `restore latest~1` would pick another snapshot.
    every = [snapshot for snapshot in newest if not _is_from_restore(snapshot)] or newest
    if back < len(every):
        return every[back]
    raise ToolError(
        f'There is no snapshot "{LATEST}~{back}": there {"is" if len(every) == 1 else "are"} only {len(every)}.',
        hint=f"The oldest is {LATEST}~{len(every) - 1}." if len(every) > 1 else f"Name it {LATEST}.",
    )


def _is_from_restore(snapshot: Snapshot) -> bool:
    return snapshot.reason.startswith(_RESTORING) or snapshot.reason == _BY_TOOL


def _changes_path(reader: ObjectReader, old: Snapshot | None, new: Snapshot, path: bytes) -> bool:
    """Returns whether the entry at a path differs from the previous snapshot."""
    try:
        return _entry(reader, old, path) != _entry(reader, new, path)
    except DamagedObjectError:  # unknown: better to list one too many
        return True


def _entry(reader: ObjectReader, snapshot: Snapshot | None, path: bytes) -> TreeEntry | None:
    try:
        return find_entry(reader, root_entry(snapshot), path) if snapshot is not None else None
    except ToolError:
        return None


def _count_changes(reader: ObjectReader, old: Snapshot | None, new: Snapshot) -> int | None:
    if old is None:
        return None
    try:
        return sum(
            1 for _ in islice(compare_trees(reader, reader, (root_entry(old), root_entry(new))), _MOST_COUNTED)
        )
    except DamagedObjectError:  # `verify` reports the damage; the list still works
        return None
