"""Adding objects to a store: each once, bytes first, names after.

An ObjectWriter lives for one change of the store, whose lock its owner holds. Threads may share it. `commit` puts the
bytes on disk and then everything into the index in one transaction; without it nothing has happened: `abandon` takes
the appended bytes away again, and after a kill the next writer does.
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
    """Take away what a killed writer left. Only for who holds the store's lock, before anything is looked up.

    A writer that was killed in the middle of its commit may have written all of it and told nobody. SQLite brings
    such a commit back when the index is next opened by the first of all, and its bytes would be gone. Another commit
    in its place settles that it never was.
    """
    if _has_leftovers(folder, index.packs()):
        index.commit_noop()
        for pack in pack_numbers(folder) - set(index.packs()):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(pack_path(folder, pack))


def _has_leftovers(folder: str, known: dict[int, int]) -> bool:
    """Whether there are bytes that the index does not name: packs of their own, or the end of the newest."""
    if pack_numbers(folder) - set(known):
        return True
    newest = max(known, default=0)
    try:
        return bool(newest) and os.stat(pack_path(folder, newest)).st_size > known[newest]
    except FileNotFoundError:
        return False  # verify tells what that costs


class ObjectWriter(Closeable):
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
        """Hold these (digest, bytes) pairs. Raises SystemFault on a full disk."""
        self._put(objects, OBJECT)

    def put_snapshot(self, snapshot: Snapshot) -> bytes:
        """Hold what is told about a snapshot, in case the index is lost. Its digest."""
        told = encode_snapshot(snapshot)
        digest = digest_of(told)
        self._put([(digest, told)], SNAPSHOT)
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
            # Its number is taken in the transaction; until then a kill leaves a file that nobody knows.
            self._next_pack = self._next_pack + 1 if self._next_pack else self._index.next_pack()
            self._writers.append(PackWriter(self._folder, self._next_pack, 0))
        return self._writers[-1]

    def find_offsets(self, digests: Sequence[bytes]) -> dict[bytes, PackOffset]:
        """Where objects lie that are held, or will be."""
        with self.lock:
            found = {
                digest: PackOffset(*self._new_offsets[digest]) for digest in digests if digest in self._new_offsets
            }
            return found | self._index.find_offsets([digest for digest in digests if digest not in found])

    def commit(self, write_index: Callable[[], None], *, synced: bool = True) -> None:
        """Make it so, together with what `write_index` puts into the index."""
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
            "The disk is full; the snapshots taken so far are whole.", hint="Free some space and try again."
        )
    return SystemFault(f"Snapshots cannot be written: {error.strerror}.", hint="Check the disk.")
