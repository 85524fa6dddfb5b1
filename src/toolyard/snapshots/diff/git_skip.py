"""Repositories that stay as they are while files around them are restored: commits are not taken back unasked.

What counts is what git takes for a repository. One that is gone, or was half deleted, comes back like any folder.
"""

from __future__ import annotations

from collections.abc import Callable

from toolyard.files.root_folder import split_path
from toolyard.snapshots.diff.tree_diff import Pair
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_GIT = b".git"
_PARTS = frozenset({b"HEAD", b"objects", b"refs"})


class RepositorySkipper:
    """To be passed to `compare`: it skips the repositories that are there now, and collects those that differ."""

    def __init__(self, entries_now: Callable[[bytes], list[TreeEntry]], now: int) -> None:
        """`now` is which of a pair is the folder as it is."""
        self._entries = entries_now
        self._now = now
        self._parents: set[bytes] = set()
        self.skipped: list[bytes] = []

    def __call__(self, path: bytes, pair: Pair) -> bool:
        folder, name = split_path(path)
        if name != _GIT or not self._is_repository(pair[self._now]):
            return False
        self.skipped.append(path)
        while folder:
            self._parents.add(folder)
            folder = split_path(folder)[0]
        return True

    def _is_repository(self, entry: TreeEntry | None) -> bool:
        if entry is None or entry.kind is not EntryKind.FOLDER:
            return False
        try:
            return {each.name for each in self._entries(entry.ref)} >= _PARTS
        except DamagedObjectError:  # nobody knows, and nothing can be lost by leaving it
            return True

    def contains_skipped(self, path: bytes) -> bool:
        """Whether a folder cannot go, for a repository in it stays."""
        return path in self._parents
