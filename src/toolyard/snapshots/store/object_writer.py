"""Adds objects to a store: each one once, first its bytes, then its index entry.

An ObjectWriter lives for one change of the store, whose lock its owner holds. Threads may share it. `commit` syncs
the bytes and then writes everything into the index in one transaction. Without it nothing has happened: `abandon`
removes the appended bytes, and after a kill the next writer does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Sequence

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.snapshots.store.index import Index
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.objects import digest_of
from toolyard.snapshots.store.packs import (
    OBJECT,
    PACK_BYTES,
    SNAPSHOT,
    OffsetRow,
    PackOffset,
    PackWriter,
    pack_numbers,
    pack_path,
)
from toolyard.snapshots.store.snapshot_codec import encode_snapshot

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def remove_leftovers(folder: str, index: Index) -> None:
    """Removes what a killed writer left. The caller holds the store's lock and has not read the index yet.

    A writer that was killed during its commit may have written the whole transaction without anyone seeing it. SQLite
    replays such a commit when the index is next opened by a first connection, and by then its bytes would be gone.
    Making another commit first rules that out.
    """
    if _has_leftovers(folder, index.packs()):
        index.commit_noop()
        for pack in pack_numbers(folder) - set(index.packs()):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(pack_path(folder, pack))


def _has_leftovers(folder: str, known: dict[int, int]) -> bool:
    """Returns whether there are bytes that the index does not name: unknown packs, or the end of the newest one."""
    if pack_numbers(folder) - set(known):
        return True
    newest = max(known, default=0)
    try:
        return bool(newest) and os.stat(pack_path(folder, newest)).st_size > known[newest]
    except FileNotFoundError:
        return False  # `verify` reports the files that need it


class ObjectWriter(Closeable):
    """Appends new objects to the packs of a store; see the module."""

    def __init__(self, folder: str, index: Index, pack_bytes: int = PACK_BYTES) -> None:
        self._folder = folder
        self._index = index
        self._pack_bytes = pack_bytes
        self.lock = threading.Lock()
        """Held while the index is used: the threads of a writer share its connection."""
        self._new_offsets: dict[bytes, OffsetRow] = {}
        self._old_store_is_empty = index.is_empty()
        self._writers: list[PackWriter] = []
        self._next_pack = 0
        self.bytes_written = 0

    def put(self, objects: Sequence[tuple[bytes, bytes]]) -> None:
        """Stores these (digest, bytes) pairs. Raises SystemFault on a full disk."""
        self._put(objects, OBJECT)

    def put_snapshot(self, snapshot: Snapshot) -> bytes:
        """Stores the record of a snapshot, in case the index is lost. Returns its digest."""
        record = encode_snapshot(snapshot)
        digest = digest_of(record)
        self._put([(digest, record)], SNAPSHOT)
        return digest

    def _put(self, objects: Sequence[tuple[bytes, bytes]], mark: bytes) -> None:
        with self.lock:
            missing = self._missing_objects(objects)
            if not missing:
                return
            try:
                writer = self._open_pack()
                places = writer.append(missing.items(), mark)
            except OSError as error:
                raise _write_fault(error) from error
            self._new_offsets.update(zip(missing, places, strict=True))
            if mark == OBJECT:
                self.bytes_written += sum(map(len, missing.values()))

    def _missing_objects(self, objects: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
        new = {digest: data for digest, data in objects if digest not in self._new_offsets}
        if new and not self._old_store_is_empty:
            for digest in self._index.find_offsets(list(new)):
                del new[digest]
        return new

    def _open_pack(self) -> PackWriter:
        if self._writers and self._writers[-1].size < self._pack_bytes:
            return self._writers[-1]
        packs = self._index.packs()
        newest = max(packs, default=0)
        if not self._writers and newest and packs[newest] < self._pack_bytes:
            self._writers.append(PackWriter(self._folder, newest, packs[newest]))
        else:
            # The transaction reserves the number; until then a kill leaves a file that the index does not name.
            self._next_pack = self._next_pack + 1 if self._next_pack else self._index.next_pack()
            self._writers.append(PackWriter(self._folder, self._next_pack, 0))
        return self._writers[-1]

    def find_offsets(self, digests: Sequence[bytes]) -> dict[bytes, PackOffset]:
        """Returns the offsets of objects that are stored or will be."""
        with self.lock:
            found = {
                digest: PackOffset(*self._new_offsets[digest]) for digest in digests if digest in self._new_offsets
            }
            return found | self._index.find_offsets([digest for digest in digests if digest not in found])

    def commit(self, write_index: Callable[[], None], *, synced: bool = True) -> None:
        """Commits all objects, together with what `write_index` puts into the index."""
        with self.lock:
            try:
                for writer in self._writers:
                    writer.sync()
            except OSError as error:
                raise _write_fault(error) from error
            with self._index.transaction(synced=synced):
                for writer in self._writers:
                    self._index.set_pack(writer.pack, writer.size)
                self._index.put_objects(self._new_offsets.items())
                write_index()
            self.close()

    def abandon(self) -> None:
        """Removes the bytes that were appended."""
        with self.lock:
            known = self._index.packs()
            for writer in self._writers:
                if known.get(writer.pack, 0) < writer.size:
                    writer.abandon()
            self.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()


def _write_fault(error: OSError) -> SystemFault:
    if error.errno in _FULL:
        return SystemFault(
            "The disk is full; the snapshots taken so far are intact.", hint="Free some space and try again."
        )
    return SystemFault(f"Snapshots cannot be written: {error.strerror}.", hint="Check the disk.")
