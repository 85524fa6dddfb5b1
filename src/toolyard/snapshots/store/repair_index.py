"""Rebuilds the index from the packs when it is lost or damaged.

The packs contain every object and the record of each snapshot that differed from its parent. Not recovered: snapshots
equal to their parent, and the stat cache, so the next snapshot reads every file. Snapshots that a prune deleted come
back as long as the packs still contain their root folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from toolyard.core.errors import SystemFault, ToolError
from toolyard.core.ids import new_id
from toolyard.snapshots.store.index import Index
from toolyard.snapshots.store.layout import index_path, lock_path, packs_folder
from toolyard.snapshots.store.lock import locked_file
from toolyard.snapshots.store.lost_packs import move_aside
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.objects import MalformedObjectError
from toolyard.snapshots.store.pack_scan import scan_records
from toolyard.snapshots.store.packs import (
    HEAD_BYTES,
    OBJECT,
    SNAPSHOT,
    OffsetRow,
    open_pack,
    pack_numbers,
    pack_path,
    sync_folder,
)
from toolyard.snapshots.store.snapshot_codec import decode_snapshot


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What a rebuild found."""

    snapshots: int
    objects: int
    lost: tuple[Snapshot, ...]
    """Snapshots known from the packs or the old index whose root folder no pack contains."""
    unreadable: Mapping[str, int]
    """Bytes of each pack, by path, that could not be read as records; only packs with such bytes."""

    @property
    def is_complete(self) -> bool:
        return not self.lost and not self.unreadable


_OF_THE_INDEX = ("", "-wal", "-shm")
_UNFINISHED = ".new"
"""The new index gets its name when it is complete: a kill before that leaves the store to be rebuilt again."""
_ID_CHARS = 12
_NOTHING = RebuildResult(0, 0, (), {})


def rebuild_index(
    folder: str, lock_seconds: float, check: Callable[[], None], *, only_if_lost: bool = False
) -> RebuildResult:
    """Moves the index of the store in `folder` aside and builds a new one; `only_if_lost`: only if there is none."""
    packs, path = packs_folder(folder), index_path(folder)
    if not os.path.isdir(packs):
        raise ToolError(f"There are no snapshots in {folder}.", hint="Name the folder that holds `packs`.")
    if only_if_lost and not _is_lost(path, packs):
        return _NOTHING
    with locked_file(lock_path(folder), lock_seconds, "the snapshots", check):
        if only_if_lost and not _is_lost(path, packs):
            return _NOTHING  # another process rebuilt it first
        known = _read_old_index(path)
        aside = f".{new_id()[:_ID_CHARS]}"
        for end in _OF_THE_INDEX:
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + end, path + aside + end)
        fresh = path + _UNFINISHED
        for end in _OF_THE_INDEX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh + end)
        with Index(fresh) as index:
            done = _fill_index(packs, index, known, check)
        os.rename(fresh, path)
        sync_folder(folder)
        return done


def _is_lost(path: str, packs: str) -> bool:
    """Returns whether there are packs and no index: no file, or an empty one with no log beside it."""
    try:
        is_gone = os.stat(path).st_size == 0 and not os.path.exists(f"{path}-wal")
    except FileNotFoundError:
        is_gone = True
    return is_gone and bool(pack_numbers(packs))


class _OldIndex(NamedTuple):
    """The content of the old index; empty if it cannot be read."""

    snapshots: Sequence[Snapshot] = ()
    packs: Mapping[int, int] = {}
    """The valid size of each pack."""


def _read_old_index(path: str) -> _OldIndex:
    if not os.path.isfile(path):
        return _OldIndex()
    try:
        with Index(path) as index:
            return _OldIndex(index.snapshots(), index.packs())
    except (SystemFault, OSError, ValueError, TypeError):
        return _OldIndex()


def _fill_index(packs: str, index: Index, old_index: _OldIndex, check: Callable[[], None]) -> RebuildResult:
    snapshots = {snapshot.id: (snapshot, b"") for snapshot in old_index.snapshots}
    count = 0
    unreadable: dict[str, int] = {}
    with index.transaction():
        for pack in sorted(pack_numbers(packs) | old_index.packs.keys()):
            read = _read_pack(packs, pack, snapshots, check)
            lost = read.unreadable_bytes(old_index.packs.get(pack))
            path = pack_path(packs, pack)
            index.set_pack(pack, read.end)
            index.put_objects(read.rows.items())
            count += len(read.rows)
            if lost:
                unreadable[path] = lost
                if not read.rows:  # not a pack: nothing may be appended to it, and its number is not reused
                    move_aside(path)
                    index.drop_pack(pack)
        in_time = sorted(snapshots.values(), key=lambda pair: pair[0].time_ns)
        stored = index.find_offsets([snapshot.tree for snapshot, _ in in_time])
        found = 0
        for snapshot, record in in_time:
            if snapshot.tree in stored and record:
                index.add_snapshot(snapshot, record)
                found += 1
    lost_for_good = tuple(snapshot for snapshot, _ in in_time if snapshot.tree not in stored)
    return RebuildResult(found, count, lost_for_good, unreadable)


@dataclass(slots=True)
class _PackContents:
    """The records of one pack and the gaps between them."""

    rows: dict[bytes, OffsetRow] = field(default_factory=dict[bytes, OffsetRow])
    end: int = 0
    """Where its last intact record ends."""
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Ranges that are not intact records: start and end."""
    size: int = 0
    ends_unfinished: bool = False
    """Whether the last gap begins like a record: a writer may have been killed there."""

    def unreadable_bytes(self, counted: int | None) -> int:
        """Returns the number of lost bytes. `counted` is the size in the old index, None if unknown."""
        if counted is not None:
            within = sum(min(end, counted) - start for start, end in self.gaps if start < counted)
            return within + max(counted - self.size, 0)
        gaps = self.gaps[:-1] if self.ends_unfinished else self.gaps
        return sum(end - start for start, end in gaps)


def _read_pack(
    packs: str, pack: int, snapshots: dict[str, tuple[Snapshot, bytes]], check: Callable[[], None]
) -> _PackContents:
    """Returns the offsets of a pack's objects, and adds its snapshots to `snapshots`, by id."""
    read = _PackContents()
    file = open_pack(pack_path(packs, pack))
    if file is None:
        return read
    with file:
        for record in scan_records(file):
            check()
            read.rows[record.digest] = (pack, record.at, record.size)
            if record.at - HEAD_BYTES > read.end:
                read.gaps.append((read.end, record.at - HEAD_BYTES))
            read.end = record.end
            if record.mark == SNAPSHOT:
                file.seek(record.at)
                try:
                    snapshot = decode_snapshot(file.read(record.size))
                except MalformedObjectError:
                    continue
                snapshots[snapshot.id] = (snapshot, record.digest)
        read.size = file.seek(0, os.SEEK_END)
        if read.size > read.end:
            read.gaps.append((read.end, read.size))
            file.seek(read.end)
            read.ends_unfinished = file.read(len(OBJECT)) in {OBJECT, SNAPSHOT}
    return read
