"""Helpers of the walk: keys of cached pages, and entries that are neither files nor folders."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.archive.stat_cache import StatEntry
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_PLACE_BYTES = 16
_SPECIAL = {
    stat.S_IFIFO: b"a named pipe",
    stat.S_IFSOCK: b"a socket",
    stat.S_IFCHR: b"a device",
    stat.S_IFBLK: b"a device",
}
_NO_FOLDER = {
    errno.EACCES: b"it may not be read",
    errno.EXDEV: b"another mount",
    errno.ELOOP: b"it became a link while it was looked at",
    errno.ENOTDIR: b"it became something else while it was looked at",
    errno.ENAMETOOLONG: b"it lies too deep",
}


def root_prefix(root: RootFolder) -> bytes:
    """Returns the key prefix that separates the pages of one root from those of another."""
    return b"%d\0%s\0" % (root.device, os.fsencode(root.path))


def page_key(prefix: bytes, folder: bytes, key: str) -> bytes:
    """Returns the key under which the stats of a page are cached."""
    text = b"%s%s\0%s" % (prefix, folder, os.fsencode(key))
    return hashlib.blake2b(text, digest_size=_PLACE_BYTES).digest()  # faster than BLAKE3 on short input


def special_entry(fd: int, entry_stat: StatEntry) -> TreeEntry:
    """Returns the entry of a link, or of a skipped special file."""
    name, mode = os.fsencode(entry_stat.name), entry_stat.mode & 0o7777
    if not stat.S_ISLNK(entry_stat.mode):
        why = _SPECIAL.get(stat.S_IFMT(entry_stat.mode), b"a special file")
        return TreeEntry(name, EntryKind.SKIPPED, mode, 0, why)
    try:
        return TreeEntry(name, EntryKind.LINK, mode, 0, os.fsencode(os.readlink(entry_stat.name, dir_fd=fd)))
    except OSError:
        return TreeEntry(name, EntryKind.SKIPPED, mode, 0, b"it changed while it was looked at")


def unreadable_folder_reason(error: OSError) -> bytes:
    """Returns why a folder cannot be read; empty if it no longer exists."""
    if error.errno == errno.ENOENT:
        return b""
    return _NO_FOLDER.get(error.errno or 0, b"it cannot be read")
