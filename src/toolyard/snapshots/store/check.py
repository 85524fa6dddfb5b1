"""Reading everything again: is every stored byte what it was, and which files suffer where it is not?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.packs import Place, pack_name
from toolyard.snapshots.store.reachability import harmed, needed

_SLICE = 5_000


@dataclass(frozen=True, slots=True)
class Harm:
    """A file, or a whole folder, that cannot be restored from a snapshot."""

    snapshot: Snapshot
    path: bytes


@dataclass(frozen=True, slots=True)
class Verified:
    objects: int
    bytes_read: int
    damaged: tuple[bytes, ...]
    """The digests of objects that are not what they were, or are missing."""
    harmed: tuple[Harm, ...]
    packs: tuple[str, ...] = ()
    """The names of the packs that damaged objects lie in."""

    @property
    def is_sound(self) -> bool:
        return not self.damaged and not self.harmed


def verify(
    reader: ObjectReader,
    objects: Sequence[bytes],
    snapshots: Sequence[Snapshot],
    places_of: Callable[[Sequence[bytes]], Mapping[bytes, Place]],
    check: Callable[[], None],
) -> Verified:
    """Read and hash `objects` again, and see that `snapshots` need no others."""
    bad: set[bytes] = set()
    size = 0
    held = set(objects)
    for start in range(0, len(objects), _SLICE):
        for digest, data in reader.read_many(objects[start : start + _SLICE]):
            check()
            if isinstance(data, Exception):
                bad.add(digest)
            else:
                size += len(data)
    # What a collection dropped meanwhile is no loss.
    places = places_of(list(bad))
    bad &= set(places)
    bad |= needed(reader, (snapshot.tree for snapshot in snapshots), check) - held
    clean: set[bytes] = set()
    harm = [
        Harm(snapshot, path)
        for snapshot in snapshots
        if bad
        for path in harmed(reader, snapshot.tree, bad, clean, check)
    ]
    packs = tuple(pack_name(pack) for pack in sorted({place.pack for place in places.values()}))
    return Verified(len(objects), size, tuple(sorted(bad)), tuple(harm), packs)
