"""Reads from a store: objects by digest, folders by path, files in pieces.

An ObjectReader owns the packs that it has opened until `close()` and lives for one operation. It never waits: when a
pack was rewritten meanwhile, it asks the index again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolError
from toolyard.core.limits import KIB, MIB
from toolyard.files.os_errors import printable_name
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.objects import (
    ChunkRun,
    EntryKind,
    MalformedObjectError,
    TreeEntry,
    decode_page,
    decode_runs,
    digest_of,
    page_digests,
)
from toolyard.snapshots.store.packs import PackOffset, PackReader, pack_name

_TRIES = 5
_BATCH_BYTES = 1 * MIB
_GAP = 16 * KIB
"""Reading a few unneeded bytes is cheaper than a second read."""


class TreeReader(Protocol):
    """Anything whose folders can be listed by digest."""

    def entries(self, tree: bytes) -> list[TreeEntry]: ...


class ObjectReader(Closeable):
    """Reads and verifies stored objects."""

    def __init__(self, packs: str, find_offsets: Callable[[Sequence[bytes]], Mapping[bytes, PackOffset]]) -> None:
        """`find_offsets` asks the index; it is called from the threads that read."""
        self._packs = PackReader(packs)
        self._find_offsets = find_offsets

    def close(self) -> None:
        self._packs.close()

    def read(self, digest: bytes) -> bytes:
        """Returns the object's bytes, verified. Raises DamagedObjectError."""
        for _ in range(_TRIES):
            place = self._find_offsets((digest,)).get(digest)
            if place is None:
                break
            try:
                return self._packs.read(place, digest)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DamagedObjectError(
                    digest, f"{pack_name(place.pack)} cannot be read: {error.strerror}"
                ) from error
        raise DamagedObjectError(digest, "it is missing")

    def read_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes | memoryview | DamagedObjectError]]:
        """Yields each object once, in pack order; neighbours share one read."""
        places = self._find_offsets(list(dict.fromkeys(digests)))
        for digest in digests:
            if digest not in places:
                yield digest, DamagedObjectError(digest, "it is missing")
        batch: list[tuple[PackOffset, bytes]] = []
        for row in sorted((place, digest) for digest, place in places.items()):
            if batch and not _adjoins(batch, row[0]):
                yield from self._read_batch(batch)
                batch = []
            batch.append(row)
        if batch:
            yield from self._read_batch(batch)

    def _read_batch(
        self, rows: list[tuple[PackOffset, bytes]]
    ) -> Iterator[tuple[bytes, bytes | memoryview | DamagedObjectError]]:
        start, last = rows[0][0], rows[-1][0]
        try:
            data = memoryview(self._packs.read_raw(start._replace(size=last.at + last.size - start.at)))
        except OSError:  # the pack was rewritten or is unreadable: read one by one
            data = memoryview(b"")
        for place, digest in rows:
            piece = data[place.at - start.at : place.at - start.at + place.size]
            if len(piece) == place.size and digest_of(piece) == digest:
                yield digest, piece
                continue
            try:
                yield digest, self.read(digest)
            except DamagedObjectError as damage:
                yield digest, damage

    def entries(self, tree: bytes) -> list[TreeEntry]:
        """Returns the entries of a folder."""
        try:
            data = self.read(tree)
            pages = page_digests(data)
            if pages is None:
                return decode_page(data)
            return [entry for page in pages for entry in decode_page(self.read(page))]
        except MalformedObjectError as error:
            raise DamagedObjectError(tree, str(error)) from error

    def runs(self, entry: TreeEntry) -> list[ChunkRun]:
        """Returns the parts of a file, in order."""
        if entry.kind is EntryKind.FILE:
            return [ChunkRun(entry.size, entry.ref)]
        try:
            return decode_runs(self.read(entry.ref))
        except MalformedObjectError as error:
            raise DamagedObjectError(entry.ref, str(error)) from error

    def content(self, entry: TreeEntry, limit: int | None = None) -> bytes:
        """Returns a file's bytes, at most the first `limit`."""
        left = entry.size if limit is None else min(limit, entry.size)
        parts: list[bytes] = []
        for size, digest in self.runs(entry):
            if left <= 0:
                break
            wanted = min(left, size)
            parts.append(bytes(wanted) if digest is None else self.read(digest)[:wanted])
            left -= wanted
        return b"".join(parts)


def _adjoins(batch: list[tuple[PackOffset, bytes]], offset: PackOffset) -> bool:
    first, last = batch[0][0], batch[-1][0]
    beside = offset.pack == last.pack and offset.at <= last.at + last.size + _GAP
    return beside and offset.at + offset.size - first.at <= _BATCH_BYTES


def find_entry(trees: TreeReader, top: TreeEntry, path: bytes) -> TreeEntry:
    """Returns the entry at `path` beneath the folder `top`. Raises ToolError if there is none."""
    found: TreeEntry | None = top
    for name in path_parts(path):
        inside = trees.entries(found.ref) if found.kind is EntryKind.FOLDER else []
        found = next((entry for entry in inside if entry.name == name), None)
        if found is None:
            display = printable_name(path.decode("utf-8", "surrogateescape"))
            raise ToolError(f"The snapshot does not contain {display}.", hint="Show the folder to see its content.")
    return found


def walk_tree(trees: TreeReader, tree: bytes, start: bytes = b"") -> Iterator[tuple[bytes, TreeEntry]]:
    """Yields every entry beneath a folder with its path, a folder before its content."""
    waiting = [(start, tree)]
    while waiting:
        folder, digest = waiting.pop()
        for entry in trees.entries(digest):
            path = folder + b"/" + entry.name if folder else entry.name
            yield path, entry
            if entry.kind is EntryKind.FOLDER:
                waiting.append((path, entry.ref))


def path_parts(path: bytes) -> list[bytes]:
    """Splits a path into names; `.` and extra slashes are dropped."""
    return [name for name in path.split(b"/") if name not in {b"", b"."}]
