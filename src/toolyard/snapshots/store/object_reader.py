"""Objects by digest, folders by path, files in pieces: everything that is read from a store.

An ObjectReader owns the packs it has opened until `close()` and lives for one operation. It never waits: when a pack
was rewritten under it, it asks the index again.
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
"""Reading a few bytes too many is cheaper than reading twice."""


class TreeReader(Protocol):
    """Anything whose folders can be listed by digest."""

    def entries(self, tree: bytes) -> list[TreeEntry]: ...


class ObjectReader(Closeable):
    def __init__(self, packs: str, find_offsets: Callable[[Sequence[bytes]], Mapping[bytes, PackOffset]]) -> None:
        """`find_offsets` asks the index; it is called from the threads that read."""
        self._packs = PackReader(packs)
        self._find_offsets = find_offsets

    def close(self) -> None:
        self._packs.close()

    def read(self, digest: bytes) -> bytes:
        """The object's bytes, checked. Raises Damaged."""
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
        raise DamagedObjectError(digest, "it is not there")

    def read_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes | memoryview | DamagedObjectError]]:
        """Each object once, in the order they lie in, several with one read where they lie side by side."""
        places = self._find_offsets(list(dict.fromkeys(digests)))
        for digest in digests:
            if digest not in places:
                yield digest, DamagedObjectError(digest, "it is not there")
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
        except OSError:  # the pack was rewritten, or is not readable: one by one
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
        """What a folder holds."""
        try:
            data = self.read(tree)
            pages = page_digests(data)
            if pages is None:
                return decode_page(data)
            return [entry for page in pages for entry in decode_page(self.read(page))]
        except MalformedObjectError as error:
            raise DamagedObjectError(tree, str(error)) from error

    def runs(self, entry: TreeEntry) -> list[ChunkRun]:
        """A file's parts, in order."""
        if entry.kind is EntryKind.FILE:
            return [ChunkRun(entry.size, entry.ref)]
        try:
            return decode_runs(self.read(entry.ref))
        except MalformedObjectError as error:
            raise DamagedObjectError(entry.ref, str(error)) from error

    def content(self, entry: TreeEntry, limit: int | None = None) -> bytes:
        """A file's bytes, at most the first `limit`."""
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
    """The entry at `path` beneath the folder `top`. Raises ToolError when there is none."""
    found: TreeEntry | None = top
    for name in path_parts(path):
        inside = trees.entries(found.ref) if found.kind is EntryKind.FOLDER else []
        found = next((entry for entry in inside if entry.name == name), None)
        if found is None:
            told = printable_name(path.decode("utf-8", "surrogateescape"))
            raise ToolError(f"The snapshot holds no {told}.", hint="Show the folder to see what it holds.")
    return found


def walk_tree(trees: TreeReader, tree: bytes, start: bytes = b"") -> Iterator[tuple[bytes, TreeEntry]]:
    """Every entry beneath a folder with its path, a folder before what it holds."""
    waiting = [(start, tree)]
    while waiting:
        folder, digest = waiting.pop()
        for entry in trees.entries(digest):
            path = folder + b"/" + entry.name if folder else entry.name
            yield path, entry
            if entry.kind is EntryKind.FOLDER:
                waiting.append((path, entry.ref))


def path_parts(path: bytes) -> list[bytes]:
    """The names on the way; `.` and slashes too many are nothing."""
    return [name for name in path.split(b"/") if name not in {b"", b"."}]
