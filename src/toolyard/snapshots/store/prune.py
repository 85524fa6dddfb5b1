"""Prunes the store: deletes expired snapshots, then unreachable objects, then the packs that contained them.

Each step is a transaction of its own, and bytes are copied and synced before the index names them. A kill between two
steps leaves unused bytes, which the next writer or the next prune removes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from toolyard.snapshots.store.index import Index
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.packs import (
    HEAD_BYTES,
    OBJECT,
    SNAPSHOT,
    OffsetRow,
    PackOffset,
    PackReader,
    PackWriter,
    pack_path,
)
from toolyard.snapshots.store.reachability import reachable_objects

_WORTH_REWRITING = 0.2
"""A pack is rewritten once at least this share of it is unused."""
_COPIED_AT_ONCE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What a prune deleted."""

    snapshots: tuple[Snapshot, ...]
    """The deleted snapshots."""
    objects: int
    bytes_freed: int


def expired_snapshots(snapshots: Sequence[Snapshot], keep: int | None, newer_than_ns: int | None) -> list[Snapshot]:
    """Returns the snapshots (of a list, newest first) that neither count nor age protects.

    Each root keeps its own `keep`. The newest of each root always stays: without it the next change could not be
    undone.
    """
    seen: dict[str, int] = {}
    gone: list[Snapshot] = []
    for snapshot in snapshots:
        seen[snapshot.root] = place = seen.get(snapshot.root, 0) + 1
        by_count = place <= max(keep or 0, 1)
        by_age = newer_than_ns is not None and snapshot.time_ns >= newer_than_ns
        if not by_count and not by_age:
            gone.append(snapshot)
    return gone


def prune_snapshots(
    packs: str, index: Index, reader: ObjectReader, expired: Sequence[Snapshot], check: Callable[[], None]
) -> PruneResult:
    """Deletes these snapshots and the objects that only they need. The caller holds the store's lock."""
    numbers = {snapshot.number for snapshot in expired}
    remaining = [snapshot for snapshot in index.snapshots() if snapshot.number not in numbers]
    live = reachable_objects(reader, (snapshot.tree for snapshot in remaining), check)
    records = {record for number, record in index.records().items() if number not in numbers}
    live |= records
    dead = [row[0] for row in index.objects() if row[0] not in live]
    before = sum(index.packs().values())
    with index.transaction():
        index.drop_snapshots(numbers)
        index.drop_objects(dead)
        index.drop_stale_cached_pages()
    for pack, size in sorted(index.packs().items()):
        check()
        _rewrite_pack(packs, index, (pack, size), records, check)
    return PruneResult(tuple(expired), len(dead), before - sum(index.packs().values()))


def _rewrite_pack(
    folder: str, index: Index, sized: tuple[int, int], records: Collection[bytes], check: Callable[[], None]
) -> None:
    """Copies the used objects of a pack into a new one, if that frees enough, and deletes the old one."""
    pack, size = sized
    objects = list(index.objects(pack))
    used = sum(row[3] + HEAD_BYTES for row in objects)
    if objects and size - used < size * _WORTH_REWRITING:
        return
    writer = PackWriter(folder, index.next_pack(), 0) if objects else None
    try:
        moved: list[tuple[bytes, OffsetRow]] = []
        if writer is not None:
            moved += _copy_objects(folder, writer, [row for row in objects if row[0] not in records], OBJECT, check)
            moved += _copy_objects(folder, writer, [row for row in objects if row[0] in records], SNAPSHOT, check)
        with index.transaction():
            if writer is not None:
                writer.sync()
                index.set_pack(writer.pack, writer.size)
            index.put_objects(moved)
            index.drop_pack(pack)
    except BaseException:
        if writer is not None and writer.pack not in index.packs():
            writer.abandon()
        raise
    finally:
        if writer is not None:
            writer.close()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(pack_path(folder, pack))


def _copy_objects(
    folder: str,
    writer: PackWriter,
    objects: Sequence[tuple[bytes, int, int, int]],
    mark: bytes,
    check: Callable[[], None],
) -> list[tuple[bytes, OffsetRow]]:
    """Copies objects to another pack. Damaged bytes are copied unchanged, so that `verify` still finds them."""
    moved: list[tuple[bytes, OffsetRow]] = []
    waiting: list[tuple[bytes, bytes]] = []
    room = _COPIED_AT_ONCE
    with PackReader(folder) as reader:
        for digest, *place in objects:
            where = PackOffset(*place)
            data = reader.read_raw(where)
            waiting.append((digest, data.ljust(where.size, b"\0")))
            room -= where.size
            if room < 0:
                check()
                moved += zip((digest for digest, _ in waiting), writer.append(waiting, mark), strict=True)
                waiting, room = [], _COPIED_AT_ONCE
        moved += zip((digest for digest, _ in waiting), writer.append(waiting, mark), strict=True)
    return moved
