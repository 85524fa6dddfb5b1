"""Reads files in a few threads: reading and hashing release the GIL, so they overlap.

The pool owns duplicates of the descriptors that it was given until their files are read, and closes the rest on
`close()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from toolyard.core.closeable import Closeable
from toolyard.snapshots.archive.file_reader import FileReader, ObjectSink, ReadResult
from toolyard.snapshots.archive.stat_cache import StatRow

WORKERS = 2
_MOST_WAITING = 64
"""Batches that wait to be read: each holds a descriptor."""

ReadResults = list[ReadResult]


class ReadPool(Closeable):
    """A pool of threads that read and store files."""

    def __init__(self, sink: ObjectSink, workers: int = WORKERS) -> None:
        self._sink = sink
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="toolyard-snapshot")
        self._slots = threading.BoundedSemaphore(_MOST_WAITING)
        self._open_fds: set[int] = set()

    def read(self, folder: int, rows: Sequence[StatRow]) -> Future[ReadResults]:
        """Reads these files of an open folder, in order. The folder may be closed as soon as this returns."""
        self._slots.acquire()
        fd = os.dup(folder)
        self._open_fds.add(fd)
        return self._pool.submit(self._read, fd, rows)

    def _read(self, fd: int, rows: Sequence[StatRow]) -> ReadResults:
        try:
            reader = FileReader(self._sink)
            results = reader.read_all(fd, rows)
            reader.flush()
            return results
        finally:
            self._open_fds.discard(fd)
            os.close(fd)
            self._slots.release()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        while self._open_fds:
            os.close(self._open_fds.pop())
