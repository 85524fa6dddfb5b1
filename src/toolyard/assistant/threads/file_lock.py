"""Who may go on with a thread: one at a time, in order of arrival, in this process and all others on this machine.

Each one who comes locks a byte of one file, the next after all that are locked, and waits until none before it is.
The locks belong to open files (`F_OFD_SETLK`), so threads of one process exclude each other like processes do, and
the kernel takes them back when a process ends, however it ends. The bytes of a thread are its own by the first digits
of its id; two threads that share these wait for each other, and that is all.
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
"""It is held while one byte is looked for."""


class ThreadFileLock:
    def __init__(self, path: str) -> None:
        """Locks in the file at `path`, which is made when it is first used and never removed."""
        self._path = path
        self._released = threading.Condition()

    @contextlib.contextmanager
    def acquire(self, thread: str, check_can_wait: Callable[[], None]) -> Generator[None]:
        """Raises SystemFault, and what `check_can_wait` raises."""
        first = int(thread[:_DIGITS], 16) * _BYTES_PER_THREAD
        locks = _ByteLocks(self._path)
        try:
            place = self._join_queue(locks, first, check_can_wait)
            while locks.end_of_next_lock(first, place):
                check_can_wait()
                self._pause(WAIT_SECONDS)
            yield
        finally:
            locks.close()
            with self._released:
                self._released.notify_all()

    def _join_queue(self, locks: _ByteLocks, first: int, check_can_wait: Callable[[], None]) -> int:
        """Lock a byte behind everybody who waits already: which one."""
        door = first + _BYTES_PER_THREAD - 1
        while not locks.lock(door):
            check_can_wait()
            self._pause(_QUEUE_LOCK_SECONDS)
        place = first
        while found := locks.end_of_next_lock(place, door):
            place = found
        locks.lock(place)
        locks.unlock(door)
        return place

    def _pause(self, seconds: float) -> None:
        """Until somebody of this process lets go of a thread, or a moment."""
        with self._released:
            self._released.wait(seconds)


class _ByteLocks:
    """Of one open file. Raises SystemFault."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._lock_error(error) from error

    def close(self) -> None:
        os.close(self._fd)

    def lock(self, byte: int) -> bool:
        """Whether nobody else has it."""
        try:
            self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, byte, 1)
        except BlockingIOError:
            return False
        return True

    def unlock(self, byte: int) -> None:
        self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, 1)

    def end_of_next_lock(self, begin: int, end: int) -> int:
        """The byte after one from `begin` up to `end` that somebody else has locked; 0 where there is none."""
        if begin == end:
            return 0  # a length of nothing would mean: to the end of the file
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
            f"The thread cannot be held with {self._path}: {error.strerror}.",
            hint="Look at the folder and the disk it is on.",
        )
