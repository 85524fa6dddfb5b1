"""Checks that a file on disk is still the one in a snapshot: no other file may be removed or replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

from toolyard.snapshots.archive.file_reader import FileContent, FileReader
from toolyard.snapshots.archive.stat_cache import StatEntry, decode_stats, same_stat, stat_entry
from toolyard.snapshots.archive.walk_keys import page_key
from toolyard.snapshots.diff.live_tree import NullSink
from toolyard.snapshots.store.index import CachedPage
from toolyard.snapshots.store.objects import EntryKind, TreeEntry, page_ranges


class UnchangedCheck:
    """Compares files with the snapshot taken before the restore: by stat if possible, else by content."""

    def __init__(self, prefix: bytes, find_page: Callable[[bytes], CachedPage | None]) -> None:
        self._prefix = prefix
        self._find_page = find_page
        self._reader = FileReader(NullSink())
        self._folder: bytes | None = None
        self._stats: dict[str, StatEntry] = {}

    def enter_folder(self, folder: bytes, names: Sequence[bytes]) -> None:
        """Selects the folder for the next checks; `names` are its entries in the snapshot."""
        if folder == self._folder:
            return
        self._folder = folder
        self._stats = {}
        for key, _, _ in page_ranges(sorted(map(os.fsdecode, names))):
            seen = self._find_page(page_key(self._prefix, folder, key))
            if seen is not None:
                self._stats.update(decode_stats(seen.stats))

    def is_unchanged(self, fd: int, entry: TreeEntry, status: os.stat_result) -> bool:
        """Returns whether the file at `entry.name` in the open folder, with this `status`, is the one in `entry`."""
        name = os.fsdecode(entry.name)
        known = self._stats.get(name)
        if known is not None and same_stat(stat_entry(name, status), known):
            return True
        if entry.kind is EntryKind.LINK:
            return stat.S_ISLNK(status.st_mode) and os.fsencode(os.readlink(name, dir_fd=fd)) == entry.ref
        if not entry.is_file or not stat.S_ISREG(status.st_mode):
            return False
        content = self._reader.read(fd, stat_entry(name, status))
        self._reader.flush()
        return isinstance(content, FileContent) and not content.torn and content.ref == entry.ref
