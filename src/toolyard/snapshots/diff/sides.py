"""Compares two sides: snapshots, or a snapshot and the current folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from toolyard.core.errors import ToolError
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.diff.collapse_git import collapse_git_folders
from toolyard.snapshots.diff.git_skip import RepositorySkipper
from toolyard.snapshots.diff.live_tree import LiveTree, live_content
from toolyard.snapshots.diff.renames import find_renames
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits, with_texts
from toolyard.snapshots.diff.tree_diff import ChangeType, compare_trees
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader, find_entry, path_parts
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_MOST_FOR_RENAMES = 200_000
"""Changes that are held in memory to find renames among them."""


class DiffSide(Protocol):
    """One side of a diff."""

    top: TreeEntry

    def entries(self, tree: bytes) -> list[TreeEntry]: ...

    def content(self, path: bytes, entry: TreeEntry) -> bytes:
        """Returns a file's bytes. Raises DamagedObjectError or OSError."""
        ...


class SnapshotSide:
    """A snapshot as one side of a diff."""

    def __init__(self, reader: ObjectReader, snapshot: Snapshot) -> None:
        self._reader = reader
        self.top = root_entry(snapshot)

    def entries(self, tree: bytes) -> list[TreeEntry]:
        return self._reader.entries(tree)

    def content(self, path: bytes, entry: TreeEntry) -> bytes:
        del path
        return self._reader.content(entry)


class LiveSide:
    """The current folder as one side of a diff."""

    def __init__(self, trees: LiveTree, root: RootFolder, tree: bytes) -> None:
        self._trees = trees
        self._root = root
        self.top = TreeEntry(b"", EntryKind.FOLDER, root.mode, 0, tree)

    def entries(self, tree: bytes) -> list[TreeEntry]:
        return self._trees.entries(tree)

    def content(self, path: bytes, entry: TreeEntry) -> bytes:
        return live_content(self._root, path, entry.size)


def root_entry(snapshot: Snapshot) -> TreeEntry:
    """Returns the entry of a snapshot's root folder."""
    return TreeEntry(b"", EntryKind.FOLDER, snapshot.mode, 0, snapshot.tree)


def names_in_snapshot(reader: ObjectReader, snapshot: Snapshot) -> Callable[[bytes], set[str]]:
    """Returns a function for the names that a snapshot has in a folder; none if the folder is missing or damaged."""

    def names(path: bytes) -> set[str]:
        try:
            folder = find_entry(reader, root_entry(snapshot), path)
            entries = reader.entries(folder.ref) if folder.kind is EntryKind.FOLDER else []
        except ToolError:
            return set()
        return {os.fsdecode(entry.name) for entry in entries}

    return names


def diff_sides(old: DiffSide, new: DiffSide, path: bytes, limits: DiffLimits) -> Diff:
    """Returns every difference at and beneath `path`, with renames found and texts compared."""
    path = b"/".join(path_parts(path))
    before, after = _entry(old, path), _entry(new, path)
    if before is None and after is None:
        find_entry(old, old.top, path)  # raises: the path does not exist
    skipper = RepositorySkipper(new.entries, now=1) if limits.skip_git else None
    changes = list(islice(compare_trees(old, new, (before, after), path, skip=skipper), _MOST_FOR_RENAMES))
    if skipper is not None:
        changes = [
            change
            for change in changes
            if change.what is not ChangeType.ADDED or not skipper.contains_skipped(change.path)
        ]
    shown, collapsed = collapse_git_folders(changes, path) if limits.collapse_git else (changes, ())
    listed = find_renames(shown, old.content, new.content)
    total = len(listed) + sum(folder.count for folder in collapsed)
    texts = with_texts(listed[: limits.changes], old.content, new.content, limits)
    return Diff(texts, total, collapsed, tuple(skipper.skipped) if skipper is not None else ())


def _entry(side: DiffSide, path: bytes) -> TreeEntry | None:
    try:
        return find_entry(side, side.top, path)
    except ToolError:
        return None
