"""The stat cache: recognises unchanged files without opening them.

A file with the same inode, size, mtime and ctime is assumed to be unchanged: that makes unchanged trees cheap. The
exception is git's rule for racy timestamps: a file that changed at the moment of the scan may change again without
new times, so its entry is stored with a ctime of 0, which matches nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from toolyard.core.limits import MIB

UNCERTAIN_CTIME = 0
_TICK_NS = 50_000_000
"""Longer than one tick of the kernel's clock."""
_COARSE_NS = 2_000_000_000
"""For file systems with a resolution of one or two seconds."""
_SECOND_NS = 1_000_000_000
_COUNT = struct.Struct("<I")
_FIELDS = 5
_MASK = (1 << 64) - 1
_LARGE = 16 * MIB
"""From this size on, checking for holes is worthwhile."""
_BLOCK = 512  # in st_blocks, whatever the file system's own


class StatEntry(NamedTuple):
    """The stat of one entry of a folder; of a subfolder only name and mode, because it is scanned itself."""

    name: str
    mode: int
    inode: int
    size: int
    mtime_ns: int
    """When its content changed, as the file says."""
    ctime_ns: int
    """When anything about it changed, as the kernel says."""


StatRow = tuple[str, int, int, int, int, int]
"""A StatEntry as a plain tuple: cheaper to make, and most files are unchanged."""


def stat_entry(name: str, status: os.stat_result) -> StatEntry:
    """Builds a StatEntry from a stat result."""
    return StatEntry(name, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_racy(ctime_ns: int, started_ns: int) -> bool:
    """Returns whether a file with that ctime may have changed again, unnoticed, since the scan started."""
    slack = _TICK_NS if ctime_ns % _SECOND_NS else _COARSE_NS
    return ctime_ns >= started_ns - slack


def racy_cutoff(started_ns: int) -> int:
    """Returns the time before which no ctime is racy for a scan that started then, on any file system."""
    return started_ns - _COARSE_NS


def scan_folder(fd: int) -> tuple[list[StatRow], list[str]]:
    """Returns everything in an open folder, sorted by name, and the names of its subfolders."""
    rows: list[StatRow] = []
    folders: list[str] = []
    add, is_folder = rows.append, stat.S_IFDIR
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed during the scan
            mode = status.st_mode
            if mode & 0o170000 == is_folder:
                folders.append(entry.name)
                add((entry.name, mode, 0, 0, 0, 0))
            else:
                add((entry.name, mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    if len({row[0] for row in rows}) < len(rows):  # an entry that is replaced during the scan may be listed twice
        rows = list({row[0]: row for row in rows}.values())
        folders = [row[0] for row in rows if stat.S_ISDIR(row[1])]
    rows.sort()
    folders.sort()
    return rows, folders


def disk_usage(fd: int, rows: Sequence[StatRow]) -> int:
    """Returns about how many bytes the files of a folder use on disk; holes of large files do not count."""
    size = 0
    for row in rows:
        if row[3] < _LARGE:
            size += row[3]
            continue
        with contextlib.suppress(OSError):
            size += min(row[3], os.stat(row[0], dir_fd=fd, follow_symlinks=False).st_blocks * _BLOCK)
    return size


def encode_stats(rows: Sequence[StatRow]) -> bytes:
    """Encodes rows column by column: compact, and fast to compare as bytes."""
    if not rows:
        return _COUNT.pack(0)
    names, *columns = zip(*rows, strict=True)
    parts = [_COUNT.pack(len(rows))]
    for column in columns:
        try:
            parts.append(array("Q", column).tobytes())
        except OverflowError:  # a time before 1970
            parts.append(array("Q", [value & _MASK for value in column]).tobytes())
    parts.append("/".join(names).encode("utf-8", "surrogateescape"))
    return b"".join(parts)


def decode_stats(data: bytes) -> dict[str, StatEntry]:
    """Decodes stats, by name. Empty if the bytes are invalid: then nothing is known."""
    try:
        (count,) = _COUNT.unpack_from(data)
        columns = array("Q", data[_COUNT.size : _COUNT.size + 8 * count * _FIELDS])
        names = data[_COUNT.size + 8 * count * _FIELDS :].decode("utf-8", "surrogateescape").split("/")
    except (struct.error, ValueError):
        return {}
    if not count or len(names) != count or len(columns) != count * _FIELDS:
        return {}
    fields = (columns[at * count : (at + 1) * count] for at in range(_FIELDS))
    return {entry_stat.name: entry_stat for entry_stat in map(StatEntry, names, *fields)}


def same_stat(one: StatRow, other: StatEntry) -> bool:
    """Returns whether the two are the same file in the same state, as far as stat shows."""
    return other.ctime_ns != UNCERTAIN_CTIME and all(
        a == b or a & _MASK == b for a, b in zip(one[1:], other[1:], strict=True)
    )
