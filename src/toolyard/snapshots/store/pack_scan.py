"""Reads a pack from beginning to end without an index.

Every record is checked against its digest. After a damaged one the scan looks for the next mark, so that one bad spot
costs only the records that it lies in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from blake3 import blake3

from toolyard.core.limits import MIB
from toolyard.snapshots.store.packs import HEAD, HEAD_BYTES, OBJECT, SNAPSHOT

_PIECE = 1 * MIB
_MARKS = {OBJECT, SNAPSHOT}
_MARK_BYTES = len(OBJECT)


class PackRecord(NamedTuple):
    """One record of a pack."""

    mark: bytes
    digest: bytes
    at: int
    """Where its bytes begin."""
    size: int

    @property
    def end(self) -> int:
        return self.at + self.size


def scan_records(file: BinaryIO) -> Iterator[PackRecord]:
    """Yields the intact records of a pack, in order."""
    size = file.seek(0, 2)
    at = 0
    while at + HEAD_BYTES <= size:
        record = _read_header(file, at, size)
        if record is not None and _is_intact(file, record):
            yield record
            at = record.end
        elif record is not None and (record.end == size or _read_header(file, record.end, size) is not None):
            at = record.end  # its bytes are damaged, but its length is valid
        else:
            at = _next_mark(file, at + 1, size)


def _read_header(file: BinaryIO, at: int, size: int) -> PackRecord | None:
    file.seek(at)
    head = file.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    mark, length, digest = HEAD.unpack(head)
    if mark not in _MARKS or at + HEAD_BYTES + length > size:
        return None
    return PackRecord(mark, digest, at + HEAD_BYTES, length)


def _is_intact(file: BinaryIO, record: PackRecord) -> bool:
    file.seek(record.at)
    hashed = blake3()
    left = record.size
    while left and (piece := file.read(min(_PIECE, left))):
        hashed.update(piece)
        left -= len(piece)
    return not left and hashed.digest() == record.digest


def _next_mark(file: BinaryIO, at: int, size: int) -> int:
    while at < size:
        file.seek(at)
        piece = file.read(_PIECE)
        found = [where for mark in _MARKS if (where := piece.find(mark)) >= 0]
        if found:
            return at + min(found)
        if at + len(piece) >= size:
            break
        at += len(piece) - _MARK_BYTES + 1
    return size
