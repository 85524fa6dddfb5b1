"""Is what stands at a name what a snapshot holds? Nothing else may be taken away or replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence

from toolyard.snapshots.archive.file_reader import Content, Reader
from toolyard.snapshots.archive.stat_cache import Look, decode_looks, look_of, same_look
from toolyard.snapshots.archive.walk_keys import page_place
from toolyard.snapshots.diff.live_tree import Nowhere
from toolyard.snapshots.store.index import Seen
from toolyard.snapshots.store.objects import Entry, Kind, page_cuts


class Held:
    """What the snapshot before a restore knows of one folder: by look where that is certain, else by content."""

    def __init__(self, prefix: bytes, seen: Callable[[bytes], Seen | None]) -> None:
        self._prefix = prefix
        self._seen = seen
        self._reader = Reader(Nowhere())
        self._folder: bytes | None = None
        self._looks: dict[str, Look] = {}

    def look_into(self, folder: bytes, names: Sequence[bytes]) -> None:
        """From now on questions are about `folder`, of which the snapshot holds `names`."""
        if folder == self._folder:
            return
        self._folder = folder
        self._looks = {}
        for key, _, _ in page_cuts(sorted(map(os.fsdecode, names))):
            seen = self._seen(page_place(self._prefix, folder, key))
            if seen is not None:
                self._looks.update(decode_looks(seen.looks))

    def is_held(self, fd: int, entry: Entry, status: os.stat_result) -> bool:
        """Whether what stands at `entry.name` in the open folder, and looks like `status`, is what `entry` says."""
        name = os.fsdecode(entry.name)
        known = self._looks.get(name)
        if known is not None and same_look(look_of(name, status), known):
            return True
        if entry.kind is Kind.LINK:
            return stat.S_ISLNK(status.st_mode) and os.fsencode(os.readlink(name, dir_fd=fd)) == entry.ref
        if not entry.is_file or not stat.S_ISREG(status.st_mode):
            return False
        content = self._reader.read(fd, look_of(name, status))
        self._reader.flush()
        return isinstance(content, Content) and not content.torn and content.ref == entry.ref
