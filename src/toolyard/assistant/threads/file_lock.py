"""Locks threads: one holder at a time, in order of arrival, across all processes on this machine.

Each waiter locks a byte of one file, the next after all locked ones, and waits until no byte before it is locked. The
locks belong to open files (`F_OFD_SETLK`), so threads of one process exclude each other as processes do, and the
kernel releases them when a process ends, however it ends. The first digits of a thread's id select its range of
bytes; two threads with the same digits wait for each other, which does no harm.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Generator

from toolyard.assistant.threads.store import WAIT_SECONDS
from toolyard.core.errors import SystemFault

_FLOCK = struct.Struct("hhqqi0q")
"""`struct flock`: type, whence, start, length, process."""
_BYTES_PER_THREAD = 2**30
_DIGITS = 8
_QUEUE_LOCK_SECONDS = 0.001
"""Poll interval for the lock of the queue, which is held only while a byte is chosen."""


class ThreadFileLock:
    """Locks of all threads, in one file."""

    def __init__(self, path: str) -> None:
        """Uses the file at `path`, which is created on first use and never removed."""
        self._path = path
        self._released = threading.Condition()

    @contextlib.contextmanager
    def acquire(self, thread: str, check_can_wait: Callable[[], None]) -> Generator[None]:
        """Holds the thread inside the block. Raises SystemFault, and what `check_can_wait` raises."""
        first = int(thread[:_DIGITS], 16) * _BYTES_PER_THREAD
        locks = _ByteLocks(self._path)
        try:
            position = self._join_queue(locks, first, check_can_wait)
            while locks.end_of_next_lock(first, position):
                check_can_wait()
                self._pause(WAIT_SECONDS)
            yield
        finally:
            locks.close()
            with self._released:
                self._released.notify_all()

    def _join_queue(self, locks: _ByteLocks, first: int, check_can_wait: Callable[[], None]) -> int:
        """Locks a byte behind all waiters and returns its position."""
        queue_lock = first + _BYTES_PER_THREAD - 1
        while not locks.lock(queue_lock):
            check_can_wait()
            self._pause(_QUEUE_LOCK_SECONDS)
        position = first
        while found := locks.end_of_next_lock(position, queue_lock):
            position = found
        locks.lock(position)
        locks.unlock(queue_lock)
        return position

    def _pause(self, seconds: float) -> None:
        """Waits until a thread of this process is released, or at most for `seconds`."""
        with self._released:
            self._released.wait(seconds)


class _ByteLocks:
    """Byte locks of one open file. Methods raise SystemFault."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._lock_error(error) from error

    def close(self) -> None:
        os.close(self._fd)

    def lock(self, byte: int) -> bool:
        """Tries to lock a byte; returns False if another holder has it."""
        try:
            self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, byte, 1)
        except BlockingIOError:
            return False
        return True

    def unlock(self, byte: int) -> None:
        self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, 1)

    def end_of_next_lock(self, begin: int, end: int) -> int:
        """Returns the position after the first foreign lock in `begin` to `end`; 0 if there is none."""
        if begin == end:
            return 0  # to fcntl, length 0 means up to the end of the file
        kind, start, length = self._fcntl(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, begin, end - begin)
        return 0 if kind == fcntl.F_UNLCK else start + length

    def _fcntl(self, request: int, kind: int, start: int, length: int) -> tuple[int, int, int]:
        wanted = _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
        try:
            found = fcntl.fcntl(self._fd, request, wanted)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._lock_error(error) from error
        kind, _, start, length, _ = _FLOCK.unpack(found)
        return kind, start, length

    def _lock_error(self, error: OSError) -> SystemFault:
        return SystemFault(
            f"The thread cannot be locked with {self._path}: {error.strerror}.",
            hint="Check the folder and its disk.",
        )
