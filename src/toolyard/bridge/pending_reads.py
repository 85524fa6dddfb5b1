"""Pending reads: content that a client pushes for a read is held separately until the read completes.

A read that fails, by a timeout or a bad answer, therefore leaves the cache unchanged, even if content had arrived.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from toolyard.bridge.cache import NewFile
from toolyard.bridge.errors import CacheRefusedError, PathRefusedError
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import ToolError

_MAX_READS = 1_000
"""Maximum number of pending reads of one client."""
_CLIENT_FACTOR = 4
"""The limits for all clients together are this many times those of one client."""


@dataclass(slots=True)
class _PendingRead:
    expires_at: float
    readers: int = 0
    file: NewFile | None = None
    received_at: float = 0.0
    refusal: PathRefusedError | None = None
    """Why the pushed file was refused."""


class PendingReads:
    """The reads in progress of all clients. Thread-safe."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        """`max_bytes` is the maximum size of held content of one client."""
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], _PendingRead] = {}

    @contextmanager
    def expect_files(self, client: str, paths: Sequence[str], seconds: float) -> Generator[None]:
        """Reserves what that client pushes for these paths for this read while the block runs.

        A read that continues with the client's next request (AnswerPending) stays pending until its time is up.
        """
        keys = [(client, path) for path in paths]
        until = self._clock() + seconds
        with self._lock:
            self._drop_expired()
            own = sum(key[0] == client for key in self._pending)
            if own + len(keys) > _MAX_READS or len(self._pending) + len(keys) > _CLIENT_FACTOR * _MAX_READS:
                raise ToolError("Too many file reads are pending.", hint="Try again in a minute.", retryable=True)
            for key in keys:
                expected = self._pending.setdefault(key, _PendingRead(until))
                expected.expires_at = max(expected.expires_at, until)
                expected.readers += 1
        try:
            yield
        except AnswerPending:
            self._release(keys, forget=False)
            raise
        except BaseException:
            self._release(keys, forget=True)
            raise
        self._release(keys, forget=True)

    def received_file(self, client: str, path: str, since: float) -> NewFile | None:
        """Returns the file that was pushed for a pending read after `since`, or None."""
        with self._lock:
            expected = self._pending.get((client, path))
            return expected.file if expected is not None and expected.received_at >= since else None

    def record_refusal(self, client: str, error: PathRefusedError) -> None:
        """Records that a pushed file was refused, so that the read can report the reason."""
        with self._lock:
            if (expected := self._pending.get((client, error.path))) is not None:
                expected.refusal = error

    def refusal(self, client: str, path: str) -> PathRefusedError | None:
        with self._lock:
            expected = self._pending.get((client, path))
            return expected.refusal if expected is not None else None

    def waits_for(self, client: str, path: str) -> bool:
        with self._lock:
            expected = self._pending.get((client, path))
            return expected is not None and expected.expires_at >= self._clock()

    def store_all(self, client: str, files: Sequence[NewFile]) -> None:
        """Stores files for the reads that wait for them: all or none. Raises CacheRefusedError."""
        with self._lock:
            sizes = {key: len(each.file.content) for key, each in self._pending.items() if each.file is not None}
            sizes |= {(client, file.path): len(file.content) for file in files}
            own = sum(size for key, size in sizes.items() if key[0] == client)
            if files and (own > self._max_bytes or sum(sizes.values()) > _CLIENT_FACTOR * self._max_bytes):
                raise CacheRefusedError(files[-1].path, "cannot be accepted now: too many reads are pending")
            for file in files:
                if (expected := self._pending.get((client, file.path))) is not None:
                    expected.file, expected.received_at = file, self._clock()

    def discard_all(self, client: str, files: Sequence[NewFile]) -> None:
        """Discards files that were stored together with others that could not be."""
        with self._lock:
            for file in files:
                expected = self._pending.get((client, file.path))
                if expected is not None and expected.file is file:
                    expected.file = None

    def _release(self, keys: Sequence[tuple[str, str]], *, forget: bool) -> None:
        with self._lock:
            for key in keys:
                expected = self._pending.get(key)
                if expected is None:
                    continue
                expected.readers -= 1
                if forget and expected.readers <= 0:
                    del self._pending[key]

    def _drop_expired(self) -> None:
        """Drops reads whose clients did not answer in time."""
        now = self._clock()
        over = [key for key, each in self._pending.items() if each.expires_at < now and each.readers <= 0]
        for key in over:
            del self._pending[key]
