"""Skips repositories during a restore: commits are not undone unless the user asks for it.

A folder counts as a repository if git would treat it as one. A repository that was deleted, even partly, is restored
like any folder.
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
    """A `skip` callback for `compare_trees`: skips existing repositories and collects those that differ."""

    def __init__(self, entries_now: Callable[[bytes], list[TreeEntry]], now: int) -> None:
        """`now` is the index of the current folder in a pair."""
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
            return {child.name for child in self._entries(entry.ref)} >= _PARTS
        except DamagedObjectError:  # unknown: skipping it loses nothing
            return True

    def contains_skipped(self, path: bytes) -> bool:
        """Returns whether a folder must stay, because it contains a skipped repository."""
        return path in self._parents
