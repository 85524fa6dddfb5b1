"""The objects of a store and their encoding.

An object is a byte string stored under its BLAKE3 digest. Its meaning comes from the entry that refers to it, so a
file that happens to look like a folder's encoding is still a file:

    folder   one page of entries, or, for a big folder, the digests of its pages
    file     its bytes, up to CHUNK; a bigger one is a list of chunks, where chunks of zeros are only counted
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from blake3 import blake3

DIGEST_BYTES = 32
CHUNK = 256 * 1024
"""Files up to this size are one object; bigger ones are split at multiples of it."""
_WHOLE_FOLDER = 512
"""A folder of at most this many entries is one page."""
_PAGE_ENTRIES = 256
"""Average entries in a page of a bigger folder. The cuts depend on names alone, so a change affects only its page."""
_PAGE_MOST = 2_048
_PAGES, _ENTRIES = b"N", b"P"
_ENTRY = struct.Struct("<BBIQHH")
_RUN = struct.Struct("<BQ")
_ZEROS_RUN, _DATA_RUN = 0, 1


class EntryKind(IntEnum):
    """What an entry of a folder is."""

    FILE = 1
    CHUNKED = 2
    FOLDER = 3
    LINK = 4
    SKIPPED = 5


class TreeEntry(NamedTuple):
    """One name in a folder. `ref` is a digest, a link's target, or the reason why it was skipped."""

    name: bytes
    kind: EntryKind
    mode: int
    size: int
    ref: bytes
    torn: bool = False

    @property
    def is_file(self) -> bool:
        return self.kind is EntryKind.FILE or self.kind is EntryKind.CHUNKED


class ChunkRun(NamedTuple):
    """A part of a big file: `size` bytes under `digest`, or that many zeros."""

    size: int
    digest: bytes | None


_KINDS = {int(kind): kind for kind in EntryKind}
_FILE, _CHUNKED, _LINK = EntryKind.FILE, EntryKind.CHUNKED, EntryKind.LINK


def digest_of(data: bytes | memoryview) -> bytes:
    """Returns the digest under which these bytes are stored."""
    return blake3(data).digest()


class MalformedObjectError(ValueError):
    """The bytes are not an object of the expected type, though their digest may be right."""


def encode_page(entries: Iterable[TreeEntry]) -> bytes:
    parts = [_ENTRIES]
    for name, kind, mode, size, ref, torn in entries:
        parts += (_ENTRY.pack(kind, torn, mode, size, len(name), len(ref)), name, ref)
    return b"".join(parts)


def count_entries(entries: Iterable[TreeEntry]) -> tuple[int, int, int]:
    """Counts files and links, and the bytes of the files."""
    files = links = total = 0
    for _, kind, _, size, _, _ in entries:
        if kind is _FILE or kind is _CHUNKED:
            files += 1
            total += size
        elif kind is _LINK:
            links += 1
    return files, links, total


def encode_pages(digests: Sequence[bytes]) -> bytes:
    return _PAGES + b"".join(digests)


def page_digests(data: bytes) -> list[bytes] | None:
    """Returns the pages that a folder's object lists; None if it is a page itself. Raises MalformedObjectError."""
    if data[:1] == _ENTRIES:
        return None
    if data[:1] != _PAGES or len(data) % DIGEST_BYTES != 1:
        raise MalformedObjectError("not a folder")
    return [data[at : at + DIGEST_BYTES] for at in range(1, len(data), DIGEST_BYTES)]


def decode_page(data: bytes) -> list[TreeEntry]:
    """Decodes the entries of a page. Raises MalformedObjectError."""
    if data[:1] != _ENTRIES:
        raise MalformedObjectError("not a page of a folder")
    entries: list[TreeEntry] = []
    at, end, head = 1, len(data), _ENTRY.size
    try:
        while at < end:
            number, torn, mode, size, name_bytes, ref_bytes = _ENTRY.unpack_from(data, at)
            cut = at + head + name_bytes
            kind = _KINDS.get(number)
            if kind is None or cut + ref_bytes > end:
                raise MalformedObjectError("an entry of unknown kind or length")
            entries.append(
                TreeEntry(data[at + head : cut], kind, mode, size, data[cut : cut + ref_bytes], bool(torn))
            )
            at = cut + ref_bytes
    except struct.error as error:
        raise MalformedObjectError("a truncated entry") from error
    return entries


def page_ranges(names: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yields key, start and stop of each page of a folder with these sorted names.

    The key stays the same when other pages change.
    """
    if len(names) <= _WHOLE_FOLDER:
        yield "", 0, len(names)
        return
    starts = [0]
    for at, name in enumerate(names):
        if at and (zlib.crc32(os.fsencode(name)) % _PAGE_ENTRIES == 0 or at - starts[-1] >= _PAGE_MOST):
            starts.append(at)
    for start, stop in pairwise([*starts, len(names)]):
        yield names[start] if start else "", start, stop


def encode_runs(runs: Iterable[ChunkRun]) -> bytes:
    parts: list[bytes] = []
    for size, digest in runs:
        parts += (_RUN.pack(_ZEROS_RUN if digest is None else _DATA_RUN, size), digest or b"")
    return b"".join(parts)


def decode_runs(data: bytes) -> list[ChunkRun]:
    """Decodes the chunk list of a big file. Raises MalformedObjectError."""
    runs: list[ChunkRun] = []
    at = 0
    try:
        while at < len(data):
            kind, size = _RUN.unpack_from(data, at)
            at += _RUN.size
            if kind == _ZEROS_RUN:
                runs.append(ChunkRun(size, None))
                continue
            digest = data[at : at + DIGEST_BYTES]
            if kind != _DATA_RUN or len(digest) != DIGEST_BYTES:
                raise MalformedObjectError("a truncated chunk")
            runs.append(ChunkRun(size, digest))
            at += DIGEST_BYTES
    except struct.error as error:
        raise MalformedObjectError("a truncated list of chunks") from error
    return runs
