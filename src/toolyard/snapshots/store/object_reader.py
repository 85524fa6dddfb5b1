"""Objects by digest, folders by path, files in pieces: everything that is read from a store.

An ObjectReader owns the packs it has opened until `close()` and lives for one operation. It never waits: when a pack
was rewritten under it, it asks the index again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from toolyard.core.closeable import Closing
from toolyard.core.errors import ToolError
from toolyard.core.limits import KIB, MIB
from toolyard.files.os_errors import shown
from toolyard.snapshots.store.models import Damaged
from toolyard.snapshots.store.objects import (
    Entry,
    Kind,
    Malformed,
    Run,
    decode_page,
    decode_runs,
    digest_of,
    page_digests,
)
from toolyard.snapshots.store.packs import PackReader, Place, pack_name

_TRIES = 5
_BATCH_BYTES = 1 * MIB
_GAP = 16 * KIB
"""Reading a few bytes too many is cheaper than reading twice."""


class Trees(Protocol):
    """Anything whose folders can be listed by digest."""

    def entries(self, tree: bytes) -> list[Entry]: ...


class ObjectReader(Closing):
    def __init__(self, packs: str, places_of: Callable[[Sequence[bytes]], Mapping[bytes, Place]]) -> None:
        """`places_of` asks the index; it is called from the threads that read."""
        self._packs = PackReader(packs)
        self._places_of = places_of

    def close(self) -> None:
        self._packs.close()

    def read(self, digest: bytes) -> bytes:
        """The object's bytes, checked. Raises Damaged."""
        for _ in range(_TRIES):
            place = self._places_of((digest,)).get(digest)
            if place is None:
                break
            try:
                return self._packs.read(place, digest)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Damaged(digest, f"{pack_name(place.pack)} cannot be read: {error.strerror}") from error
        raise Damaged(digest, "it is not there")

    def read_many(self, digests: Iterable[bytes]) -> Iterator[tuple[bytes, bytes | memoryview | Damaged]]:
        """Each object once, in the order they lie in, several with one read where they lie side by side."""
        places = self._places_of(list(dict.fromkeys(digests)))
        for digest in digests:
            if digest not in places:
                yield digest, Damaged(digest, "it is not there")
        batch: list[tuple[Place, bytes]] = []
        for row in sorted((place, digest) for digest, place in places.items()):
            if batch and not _adjoins(batch, row[0]):
                yield from self._batch(batch)
                batch = []
            batch.append(row)
        if batch:
            yield from self._batch(batch)

    def _batch(self, rows: list[tuple[Place, bytes]]) -> Iterator[tuple[bytes, bytes | memoryview | Damaged]]:
        start, last = rows[0][0], rows[-1][0]
        try:
            data = memoryview(self._packs.raw(start._replace(size=last.at + last.size - start.at)))
        except OSError:  # the pack was rewritten, or is not readable: one by one
            data = memoryview(b"")
        for place, digest in rows:
            piece = data[place.at - start.at : place.at - start.at + place.size]
            if len(piece) == place.size and digest_of(piece) == digest:
                yield digest, piece
                continue
            try:
                yield digest, self.read(digest)
            except Damaged as damage:
                yield digest, damage

    def entries(self, tree: bytes) -> list[Entry]:
        """What a folder holds."""
        try:
            data = self.read(tree)
            pages = page_digests(data)
            if pages is None:
                return decode_page(data)
            return [entry for page in pages for entry in decode_page(self.read(page))]
        except Malformed as error:
            raise Damaged(tree, str(error)) from error

    def runs(self, entry: Entry) -> list[Run]:
        """A file's parts, in order."""
        if entry.kind is Kind.FILE:
            return [Run(entry.size, entry.ref)]
        try:
            return decode_runs(self.read(entry.ref))
        except Malformed as error:
            raise Damaged(entry.ref, str(error)) from error

    def content(self, entry: Entry, limit: int | None = None) -> bytes:
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


def _adjoins(batch: list[tuple[Place, bytes]], place: Place) -> bool:
    first, last = batch[0][0], batch[-1][0]
    beside = place.pack == last.pack and place.at <= last.at + last.size + _GAP
    return beside and place.at + place.size - first.at <= _BATCH_BYTES


def find(trees: Trees, top: Entry, path: bytes) -> Entry:
    """The entry at `path` beneath the folder `top`. Raises ToolError when there is none."""
    found: Entry | None = top
    for name in names_of(path):
        inside = trees.entries(found.ref) if found.kind is Kind.FOLDER else []
        found = next((entry for entry in inside if entry.name == name), None)
        if found is None:
            told = shown(path.decode("utf-8", "surrogateescape"))
            raise ToolError(f"The snapshot holds no {told}.", hint="Show the folder to see what it holds.")
    return found


def walk_tree(trees: Trees, tree: bytes, start: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Every entry beneath a folder with its path, a folder before what it holds."""
    waiting = [(start, tree)]
    while waiting:
        folder, digest = waiting.pop()
        for entry in trees.entries(digest):
            path = folder + b"/" + entry.name if folder else entry.name
            yield path, entry
            if entry.kind is Kind.FOLDER:
                waiting.append((path, entry.ref))


def names_of(path: bytes) -> list[bytes]:
    """The names on the way; `.` and slashes too many are nothing."""
    return [name for name in path.split(b"/") if name not in {b"", b"."}]
