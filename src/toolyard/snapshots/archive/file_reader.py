"""Reads live files into objects, and detects files that change meanwhile.

A file is checked before and after it is read. If it changed in between it is read again; if it keeps changing, the
last content is stored and marked as torn. Where the clock is too coarse to tell, the file is read twice.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from toolyard.core.limits import MIB
from toolyard.snapshots.archive.stat_cache import StatEntry, StatRow, is_racy, racy_cutoff, stat_entry
from toolyard.snapshots.store.objects import CHUNK, ChunkRun, EntryKind, digest_of, encode_runs

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TRIES = 4
_FIRST_PAUSE = 0.002
"""Pause before a file that changed while it was read is read again; doubled each time."""
_GATHERED_BYTES = 1 * MIB
_ZEROS = bytes(CHUNK)

Objects = Sequence[tuple[bytes, bytes]]


class ObjectSink(Protocol):
    """Where objects go. Threads share it."""

    def put(self, objects: Objects) -> None: ...


class FileContent(NamedTuple):
    """A file's stored content; `stat` is its stat when it was read."""

    stat: StatEntry
    kind: EntryKind
    ref: bytes
    torn: bool


class UnreadableFile(NamedTuple):
    """A file that could not be read, and why."""

    name: str
    why: str
    gone: bool = False


ReadResult = bytes | FileContent | UnreadableFile
"""The result of reading a file: just the digest for a small, unchanged file, which most are."""


class _ChangedDuringRead(Exception):  # noqa: N818 - not an error: the file is read again
    """The file changed while it was read. `content` is what was read."""

    def __init__(self, content: FileContent | None) -> None:
        super().__init__()
        self.content = content


class FileReader:
    """Reads files of one folder after the other and passes their bytes to `sink`, a megabyte at a time."""

    def __init__(self, sink: ObjectSink) -> None:
        self._sink = sink
        self._gathered: list[tuple[bytes, bytes]] = []
        self._room = _GATHERED_BYTES

    def flush(self) -> None:
        """Passes the collected objects to the sink."""
        gathered, self._gathered, self._room = self._gathered, [], _GATHERED_BYTES
        if gathered:
            self._sink.put(gathered)

    def read(self, folder: int, entry_stat: StatEntry) -> FileContent | UnreadableFile:
        """Reads a file of an open folder, given its recent stat."""
        found = self.read_all(folder, (entry_stat,))[0]
        return FileContent(entry_stat, EntryKind.FILE, found, torn=False) if isinstance(found, bytes) else found

    def read_all(self, folder: int, rows: Sequence[StatRow]) -> list[ReadResult]:
        """Reads files of an open folder, in this order.

        One loop without helper calls, because with small files every call matters.
        """
        found: list[ReadResult] = []
        # Taken before any file is opened: an earlier time treats more files as racy, which is the safe side.
        started_ns = time.time_ns()
        settled_ns = racy_cutoff(started_ns)
        for name, mode, inode, size, changed_ns, touched_ns in rows:
            if size > CHUNK or (touched_ns >= settled_ns and is_racy(touched_ns, started_ns)):
                found.append(self._read_carefully(folder, name))
                continue
            try:
                fd = os.open(name, _FLAGS, dir_fd=folder)
                try:
                    data = os.pread(fd, size + 1, 0)
                    after = os.fstat(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                found.append(_unreadable(name, error))
                continue
            same = after.st_ctime_ns == touched_ns and after.st_mtime_ns == changed_ns and after.st_ino == inode
            if same and len(data) == size and after.st_mode == mode:
                found.append(self._put(data))
            else:
                found.append(self._read_carefully(folder, name))
        return found

    def _read_carefully(self, folder: int, name: str) -> FileContent | UnreadableFile:
        pause = _FIRST_PAUSE
        content: FileContent | None = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(pause)
                pause *= 2
            try:
                return self._read_once(folder, name)
            except _ChangedDuringRead as change:
                content = change.content or content
            except OSError as error:
                return _unreadable(name, error)
        return content._replace(torn=True) if content else UnreadableFile(name, "it kept changing while it was read")

    def _read_once(self, folder: int, name: str) -> FileContent:
        fd = os.open(name, _FLAGS, dir_fd=folder)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise _ChangedDuringRead(None)
            kind, ref = self._store(fd, before.st_size)
            after = os.fstat(fd)
            entry_stat = stat_entry(name, before)
            if ref is None or entry_stat != stat_entry(name, after):
                raise _ChangedDuringRead(FileContent(entry_stat, kind, ref, torn=False) if ref else None)
            if is_racy(before.st_ctime_ns, time.time_ns()) and self._store(fd, before.st_size) != (kind, ref):
                raise _ChangedDuringRead(FileContent(entry_stat, kind, ref, torn=False))
            return FileContent(entry_stat, kind, ref, torn=False)
        finally:
            os.close(fd)

    def _store(self, fd: int, size: int) -> tuple[EntryKind, bytes | None]:
        """Stores the first `size` bytes. The digest is None if there are fewer."""
        if size > CHUNK:
            return EntryKind.CHUNKED, self._store_chunks(fd, size)
        data = os.pread(fd, size + 1, 0)
        if len(data) < size:
            return EntryKind.FILE, None
        if len(data) > size:  # it grew: the first `size` bytes are still complete
            data = data[:size]
        return EntryKind.FILE, self._put(data)

    def _store_chunks(self, fd: int, size: int) -> bytes | None:
        runs: list[ChunkRun] = []
        at = zeros = 0
        while at < size:
            skipped = _hole_end(fd, at, size) - at
            if skipped:
                zeros += skipped
                at += skipped
                continue
            data = os.pread(fd, min(CHUNK, size - at), at)
            if len(data) != min(CHUNK, size - at):
                return None
            at += len(data)
            if data == (_ZEROS if len(data) == CHUNK else _ZEROS[: len(data)]):
                zeros += len(data)
                continue
            if zeros:
                runs.append(ChunkRun(zeros, None))
                zeros = 0
            runs.append(ChunkRun(len(data), self._put(data)))
        if zeros:
            runs.append(ChunkRun(zeros, None))
        return self._put(encode_runs(runs))

    def _put(self, data: bytes) -> bytes:
        digest = digest_of(data)
        self._gathered.append((digest, data))
        self._room -= len(data)
        if self._room < 0:
            self.flush()
        return digest


def _hole_end(fd: int, at: int, size: int) -> int:
    """Returns where the hole at `at` ends, rounded down to a multiple of CHUNK; `at` itself if there is none."""
    try:
        data = os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        # ENXIO: no data up to the end. Otherwise the file system does not support holes.
        return size if error.errno == errno.ENXIO else at
    return max(at, min(data, size) // CHUNK * CHUNK)


def _unreadable(name: str, error: OSError) -> UnreadableFile:
    if error.errno == errno.ENOENT:
        return UnreadableFile(name, "it went away", gone=True)
    if error.errno in {errno.EACCES, errno.EPERM}:
        return UnreadableFile(name, "it may not be read")
    if error.errno == errno.ELOOP:
        return UnreadableFile(name, "it became a link while it was looked at")
    return UnreadableFile(name, f"it cannot be read: {error.strerror}")
