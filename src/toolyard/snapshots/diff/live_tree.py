"""Presents the current folder like a snapshot, without writing anything.

Folder objects are kept in memory; contents are read from the files themselves on demand.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from toolyard.files.root_folder import RootFolder, split_path
from toolyard.snapshots.archive.file_reader import Objects
from toolyard.snapshots.store.index import CachedPage
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import TreeEntry, decode_page, page_digests

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NullSink:
    """A sink that stores nothing."""

    def put(self, objects: Objects) -> None:
        """Drops the objects: the reader has already hashed them."""


class LiveTree:
    """The WalkStore of a walk that writes nothing, and the TreeReader of its result."""

    def __init__(self, reader: ObjectReader, find_page: Callable[[bytes], CachedPage | None]) -> None:
        self._reader = reader
        self._find_page = find_page
        self._new_objects: dict[bytes, bytes] = {}

    def cached_page(self, key: bytes) -> CachedPage | None:
        return self._find_page(key)

    def page(self, digest: bytes) -> bytes:
        return self._new_objects.get(digest) or self._reader.read(digest)

    def put_trees(self, objects: Objects) -> None:
        self._new_objects.update(objects)

    def entries(self, tree: bytes) -> list[TreeEntry]:
        pages = page_digests(self.page(tree))
        return [entry for page in pages or [tree] for entry in decode_page(self.page(page))]


def live_content(root: RootFolder, path: bytes, limit: int) -> bytes:
    """Returns the first `limit` bytes of a file on disk. Raises OSError."""
    folder, name = split_path(path)
    above = root.open(folder)
    try:
        fd = os.open(name, _FLAGS, dir_fd=above)
    finally:
        os.close(above)
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)
