"""Two sides and what differs between them: snapshots, or a snapshot and the folder as it is now."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from toolyard.core.errors import ToolError
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.diff.collapse_git import fold
from toolyard.snapshots.diff.git_skip import Leaving
from toolyard.snapshots.diff.live_tree import LiveTree, live_content
from toolyard.snapshots.diff.renames import find_renames
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits, with_texts
from toolyard.snapshots.diff.tree_diff import What, compare
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader, find, names_of
from toolyard.snapshots.store.objects import Entry, Kind

_MOST_FOR_RENAMES = 200_000
"""Changes that are held in memory to find renames among them."""


class Side(Protocol):
    top: Entry

    def entries(self, tree: bytes) -> list[Entry]: ...

    def content(self, path: bytes, entry: Entry) -> bytes:
        """Raises Damaged or OSError."""
        ...


class SnapshotSide:
    def __init__(self, reader: ObjectReader, snapshot: Snapshot) -> None:
        self._reader = reader
        self.top = top_of(snapshot)

    def entries(self, tree: bytes) -> list[Entry]:
        return self._reader.entries(tree)

    def content(self, path: bytes, entry: Entry) -> bytes:
        del path
        return self._reader.content(entry)


class LiveSide:
    def __init__(self, trees: LiveTree, root: RootFolder, tree: bytes) -> None:
        self._trees = trees
        self._root = root
        self.top = Entry(b"", Kind.FOLDER, root.mode, 0, tree)

    def entries(self, tree: bytes) -> list[Entry]:
        return self._trees.entries(tree)

    def content(self, path: bytes, entry: Entry) -> bytes:
        return live_content(self._root, path, entry.size)


def top_of(snapshot: Snapshot) -> Entry:
    return Entry(b"", Kind.FOLDER, snapshot.mode, 0, snapshot.tree)


def held_by(reader: ObjectReader, snapshot: Snapshot) -> Callable[[bytes], set[str]]:
    """The names that a snapshot has in a folder; none where it has no such folder, or that is damaged."""

    def names(path: bytes) -> set[str]:
        try:
            folder = find(reader, top_of(snapshot), path)
            held = reader.entries(folder.ref) if folder.kind is Kind.FOLDER else []
        except ToolError:
            return set()
        return {os.fsdecode(entry.name) for entry in held}

    return names


def differences(old: Side, new: Side, path: bytes, limits: DiffLimits) -> Diff:
    """Every difference at and beneath `path`, with renames found and texts compared."""
    path = b"/".join(names_of(path))
    before, after = _entry(old, path), _entry(new, path)
    if before is None and after is None:
        find(old, old.top, path)  # says that it is not there
    leaving = Leaving(new.entries, now=1) if limits.leaves_git else None
    changes = list(islice(compare(old, new, (before, after), path, skip=leaving), _MOST_FOR_RENAMES))
    if leaving is not None:
        changes = [each for each in changes if each.what is not What.ADDED or not leaving.is_above(each.path)]
    shown, folded = fold(changes, path) if limits.folds_git else (changes, ())
    told = find_renames(shown, old.content, new.content)
    total = len(told) + sum(each.count for each in folded)
    texts = with_texts(told[: limits.changes], old.content, new.content, limits)
    return Diff(texts, total, folded, tuple(leaving.left) if leaving is not None else ())


def _entry(side: Side, path: bytes) -> Entry | None:
    try:
        return find(side, side.top, path)
    except ToolError:
        return None
