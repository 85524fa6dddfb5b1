"""Verifies the store: reads and hashes every stored byte again, and finds the files that need damaged objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.packs import PackOffset, pack_name
from toolyard.snapshots.store.reachability import damaged_paths, reachable_objects

_SLICE = 5_000


@dataclass(frozen=True, slots=True)
class DamagedPath:
    """A file, or a whole folder, that cannot be restored from a snapshot."""

    snapshot: Snapshot
    path: bytes


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What a verification read and found."""

    objects: int
    bytes_read: int
    damaged_objects: tuple[bytes, ...]
    """The digests of objects that changed or are missing."""
    damaged_paths: tuple[DamagedPath, ...]
    packs: tuple[str, ...] = ()
    """The names of the packs that contain damaged objects."""

    @property
    def is_intact(self) -> bool:
        return not self.damaged_objects and not self.damaged_paths


def verify(
    reader: ObjectReader,
    objects: Sequence[bytes],
    snapshots: Sequence[Snapshot],
    find_offsets: Callable[[Sequence[bytes]], Mapping[bytes, PackOffset]],
    check: Callable[[], None],
) -> VerifyResult:
    """Reads and hashes `objects` again, and checks that `snapshots` need no others."""
    bad: set[bytes] = set()
    size = 0
    stored = set(objects)
    for start in range(0, len(objects), _SLICE):
        for digest, data in reader.read_many(objects[start : start + _SLICE]):
            check()
            if isinstance(data, Exception):
                bad.add(digest)
            else:
                size += len(data)
    # Objects that a prune dropped in the meantime are not damaged.
    places = find_offsets(list(bad))
    bad &= set(places)
    bad |= reachable_objects(reader, (snapshot.tree for snapshot in snapshots), check) - stored
    clean: set[bytes] = set()
    harm = [
        DamagedPath(snapshot, path)
        for snapshot in snapshots
        if bad
        for path in damaged_paths(reader, snapshot.tree, bad, clean, check)
    ]
    packs = tuple(pack_name(pack) for pack in sorted({place.pack for place in places.values()}))
    return VerifyResult(len(objects), size, tuple(sorted(bad)), tuple(harm), packs)
