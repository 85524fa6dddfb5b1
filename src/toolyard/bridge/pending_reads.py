"""Reads that are under way: what a client hands over for one is kept aside until the read is done.

So a read that fails, by time or by a wrong answer, leaves the cache as it was, although the content had come already.
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
"""Of one client."""
_CLIENT_FACTOR = 4
"""That may have as much under way as one may; of more, together, no more than that."""


@dataclass(slots=True)
class _PendingRead:
    expires_at: float
    readers: int = 0
    file: NewFile | None = None
    received_at: float = 0.0
    refusal: PathRefusedError | None = None
    """Why the file was not taken when it was handed over."""


class PendingReads:
    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        """`max_bytes` is what may be kept aside at a time for one client."""
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], _PendingRead] = {}

    @contextmanager
    def expect_files(self, client: str, paths: Sequence[str], seconds: float) -> Generator[None]:
        """From here on, what that client hands over for these paths is for this read.

        A read that goes on with the client's next request (AnswerPending) is expected until its time is up.
        """
        keys = [(client, path) for path in paths]
        until = self._clock() + seconds
        with self._lock:
            self._drop_expired()
            own = sum(key[0] == client for key in self._pending)
            if own + len(keys) > _MAX_READS or len(self._pending) + len(keys) > _CLIENT_FACTOR * _MAX_READS:
                raise ToolError("Too many files are being waited for.", hint="Try again in a minute.", retryable=True)
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
        """What was handed over for a read that is under way, since it was asked for."""
        with self._lock:
            expected = self._pending.get((client, path))
            return expected.file if expected is not None and expected.received_at >= since else None

    def record_refusal(self, client: str, error: PathRefusedError) -> None:
        """Note that a file was handed over and may not be taken, so that the read can say why."""
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
        """Keep files for the reads that wait for them: all or none. Raises CacheRefusedError."""
        with self._lock:
            held = {key: len(each.file.content) for key, each in self._pending.items() if each.file is not None}
            held |= {(client, file.path): len(file.content) for file in files}
            own = sum(size for key, size in held.items() if key[0] == client)
            if files and (own > self._max_bytes or sum(held.values()) > _CLIENT_FACTOR * self._max_bytes):
                raise CacheRefusedError(files[-1].path, "cannot be taken now: too much else is under way")
            for file in files:
                if (expected := self._pending.get((client, file.path))) is not None:
                    expected.file, expected.received_at = file, self._clock()

    def discard_all(self, client: str, files: Sequence[NewFile]) -> None:
        """Take back what was kept with something that could not be."""
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
        """Reads whose clients never came back."""
        now = self._clock()
        over = [key for key, each in self._pending.items() if each.expires_at < now and each.readers <= 0]
        for key in over:
            del self._pending[key]
