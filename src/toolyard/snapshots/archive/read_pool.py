"""Reading files in a few threads: reading and hashing let go of the interpreter, so they overlap.

The pool owns the descriptors it was handed until their files are read, and closes whatever is left on `close()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from toolyard.core.closeable import Closing
from toolyard.snapshots.archive.file_reader import Found, Reader, Sink
from toolyard.snapshots.archive.stat_cache import Row

WORKERS = 2
_MOST_WAITING = 64
"""Batches handed over and not yet read: each holds a descriptor."""

Results = list[Found]


class ReadingPool(Closing):
    def __init__(self, sink: Sink, workers: int = WORKERS) -> None:
        self._sink = sink
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="toolyard-snapshot")
        self._slots = threading.BoundedSemaphore(_MOST_WAITING)
        self._held: set[int] = set()

    def read(self, folder: int, rows: Sequence[Row]) -> Future[Results]:
        """Read these files of an open folder, which may be closed as soon as this returns. In their order."""
        self._slots.acquire()
        fd = os.dup(folder)
        self._held.add(fd)
        return self._pool.submit(self._read, fd, rows)

    def _read(self, fd: int, rows: Sequence[Row]) -> Results:
        try:
            reader = Reader(self._sink)
            results = reader.read_all(fd, rows)
            reader.flush()
            return results
        finally:
            self._held.discard(fd)
            os.close(fd)
            self._slots.release()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        while self._held:
            os.close(self._held.pop())
