"""What files look like without opening them, and when that can be trusted.

A file whose inode, size and both times are as they were is taken to hold what it held: that is what makes an
unchanged tree cheap. The exception is git's rule for racy timestamps: a file changed in the very moment it was
looked at may change again without its times telling, so its look is kept with a change time of 0, which fits nothing.
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
"""Longer than the kernel's clock stands still between two ticks."""
_COARSE_NS = 2_000_000_000
"""For file systems that keep whole seconds, or even seconds."""
_SECOND_NS = 1_000_000_000
_COUNT = struct.Struct("<I")
_FIELDS = 5
_MASK = (1 << 64) - 1
_LARGE = 16 * MIB
"""From here on it is worth asking whether a file has holes."""
_BLOCK = 512  # in st_blocks, whatever the file system's own


class StatEntry(NamedTuple):
    """One entry of a folder. Of a folder only name and mode count: its entries are looked at themselves."""

    name: str
    mode: int
    inode: int
    size: int
    mtime_ns: int
    """When its content was changed, as the file says."""
    ctime_ns: int
    """When anything about it was changed, as the kernel says."""


StatRow = tuple[str, int, int, int, int, int]
"""A Look before anybody asks for its fields by name: making one takes longer, and most files are as they were."""


def stat_entry(name: str, status: os.stat_result) -> StatEntry:
    return StatEntry(name, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_racy(ctime_ns: int, started_ns: int) -> bool:
    """Whether a file touched at that time may have changed again, unseen, since we started to look."""
    slack = _TICK_NS if ctime_ns % _SECOND_NS else _COARSE_NS
    return ctime_ns >= started_ns - slack


def racy_cutoff(started_ns: int) -> int:
    """Nothing touched before this is racy to who started then, whatever the file system's clock."""
    return started_ns - _COARSE_NS


def scan_folder(fd: int) -> tuple[list[StatRow], list[str]]:
    """Everything in an open folder, sorted by name, and which of it are folders."""
    rows: list[StatRow] = []
    folders: list[str] = []
    add, is_folder = rows.append, stat.S_IFDIR
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went while we looked
            mode = status.st_mode
            if mode & 0o170000 == is_folder:
                folders.append(entry.name)
                add((entry.name, mode, 0, 0, 0, 0))
            else:
                add((entry.name, mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    if len({row[0] for row in rows}) < len(rows):  # what is taken away and made again meanwhile may be listed twice
        rows = list({row[0]: row for row in rows}.values())
        folders = [row[0] for row in rows if stat.S_ISDIR(row[1])]
    rows.sort()
    folders.sort()
    return rows, folders


def disk_usage(fd: int, rows: Sequence[StatRow]) -> int:
    """How many bytes of the disk the files of a folder take up, near enough: of large ones, not their holes."""
    size = 0
    for row in rows:
        if row[3] < _LARGE:
            size += row[3]
            continue
        with contextlib.suppress(OSError):
            size += min(row[3], os.stat(row[0], dir_fd=fd, follow_symlinks=False).st_blocks * _BLOCK)
    return size


def encode_stats(rows: Sequence[StatRow]) -> bytes:
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
    """By name. Empty when the bytes make no sense, for then nothing is known."""
    try:
        (count,) = _COUNT.unpack_from(data)
        columns = array("Q", data[_COUNT.size : _COUNT.size + 8 * count * _FIELDS])
        names = data[_COUNT.size + 8 * count * _FIELDS :].decode("utf-8", "surrogateescape").split("/")
    except (struct.error, ValueError):
        return {}
    if not count or len(names) != count or len(columns) != count * _FIELDS:
        return {}
    fields = (columns[at * count : (at + 1) * count] for at in range(_FIELDS))
    return {look.name: look for look in map(StatEntry, names, *fields)}


def same_stat(one: StatRow, other: StatEntry) -> bool:
    """Whether the two are the same file in the same state, as far as looks tell."""
    return other.ctime_ns != UNCERTAIN_CTIME and all(
        a == b or a & _MASK == b for a, b in zip(one[1:], other[1:], strict=True)
    )
