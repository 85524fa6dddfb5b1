"""A new index from the packs, when the old one is lost or damaged.

The packs hold every object and what was told about each snapshot that differed from the one before it. What is not
there again: snapshots that were the same as their parent, and what folders looked like, so that the next snapshot
reads every file. Snapshots that a collection dropped come back as long as the packs still hold their topmost folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.errors import ToolError
from toolyard.core.ids import new_id
from toolyard.workspace.snapshots.index import Index
from toolyard.workspace.snapshots.locking import locked_file
from toolyard.workspace.snapshots.objects import Malformed
from toolyard.workspace.snapshots.packs import SNAPSHOT, Row, pack_path, packs_in, sync_folder
from toolyard.workspace.snapshots.parts import index_of, lock_of, packs_of
from toolyard.workspace.snapshots.records import Snapshot
from toolyard.workspace.snapshots.scanning import records_in
from toolyard.workspace.snapshots.telling import decode_snapshot


@dataclass(frozen=True, slots=True)
class Rebuilt:
    snapshots: int
    objects: int
    lost: tuple[Snapshot, ...]
    """Snapshots that the packs tell about without holding their topmost folder."""


_OF_THE_INDEX = ("", "-wal", "-shm")
_UNFINISHED = ".new"
"""The new index appears under its name when it is whole: a kill before that leaves the store to be rebuilt again."""
_ID_CHARS = 12
_NOTHING = Rebuilt(0, 0, ())


def rebuild(folder: str, lock_seconds: float, check: Callable[[], None], *, only_if_lost: bool = False) -> Rebuilt:
    """Set the index of the store in `folder` aside and make another; `only_if_lost`, when there is none."""
    packs, path = packs_of(folder), index_of(folder)
    if not os.path.isdir(packs):
        raise ToolError(f"There are no snapshots in {folder}.", hint="Name the folder that holds `packs`.")
    if only_if_lost and not _is_lost(path, packs):
        return _NOTHING
    with locked_file(lock_of(folder), lock_seconds, "the snapshots", check):
        if only_if_lost and not _is_lost(path, packs):
            return _NOTHING  # somebody else was quicker
        aside = f".{new_id()[:_ID_CHARS]}"
        for end in _OF_THE_INDEX:
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + end, path + aside + end)
        fresh = path + _UNFINISHED
        for end in _OF_THE_INDEX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh + end)
        with Index(fresh) as index:
            done = _fill(packs, index, check)
        os.rename(fresh, path)
        sync_folder(folder)
        return done


def _is_lost(path: str, packs: str) -> bool:
    """Whether there are packs and no index: none, or an empty file with no log beside it."""
    try:
        is_gone = os.stat(path).st_size == 0 and not os.path.exists(f"{path}-wal")
    except FileNotFoundError:
        is_gone = True
    return is_gone and bool(packs_in(packs))


def _fill(packs: str, index: Index, check: Callable[[], None]) -> Rebuilt:
    told: dict[str, tuple[Snapshot, bytes]] = {}
    count = 0
    with index.transaction():
        for pack in sorted(packs_in(packs)):
            rows, size = _read_pack(packs, pack, told, check)
            index.set_pack(pack, size)
            index.put_objects(rows.items())
            count += len(rows)
        in_time = sorted(told.values(), key=lambda pair: pair[0].time_ns)
        held = index.places_of([snapshot.tree for snapshot, _ in in_time])
        for snapshot, record in in_time:
            if snapshot.tree in held:
                index.add_snapshot(snapshot, record)
    lost = tuple(snapshot for snapshot, _ in in_time if snapshot.tree not in held)
    return Rebuilt(len(in_time) - len(lost), count, lost)


def _read_pack(
    packs: str, pack: int, told: dict[str, tuple[Snapshot, bytes]], check: Callable[[], None]
) -> tuple[dict[bytes, Row], int]:
    """Where the objects of a pack lie, and how many of its bytes count; snapshots are added to `told`, by id."""
    rows: dict[bytes, Row] = {}
    end = 0
    with open(pack_path(packs, pack), "rb") as file:
        for record in records_in(file):
            check()
            rows[record.digest] = (pack, record.at, record.size)
            end = record.end
            if record.mark == SNAPSHOT:
                file.seek(record.at)
                try:
                    snapshot = decode_snapshot(file.read(record.size))
                except Malformed:
                    continue
                told[snapshot.id] = (snapshot, record.digest)
    return rows, end
