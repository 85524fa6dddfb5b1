"""Counts the requests of each client for forbidden paths. Above a limit, all its requests are refused for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolyard.bridge.errors import ClientRefusedError

DEFAULT_MAX_VIOLATIONS = 20
DEFAULT_REFUSAL_SECONDS = 3600.0
_MAX_CLIENTS = 10_000


class ViolationCounter:
    """Counts violations by client. Thread-safe."""

    def __init__(
        self,
        max_violations: int = DEFAULT_MAX_VIOLATIONS,
        seconds: float | None = DEFAULT_REFUSAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """After `max_violations`, a client is refused for `seconds` since the last one; None: until the restart."""
        self._max_violations = max_violations
        self._seconds = seconds
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def count_for(self, client: str) -> int:
        with self._lock:
            return self._current_count(client)

    def check(self, client: str) -> None:
        """Raises ClientRefusedError if the client has reached the limit."""
        with self._lock:
            count = self._current_count(client)
            if count < self._max_violations:
                return
            left = None if self._seconds is None else self._last[client] + self._seconds - self._clock()
        raise ClientRefusedError(count, left)

    def add(self, client: str) -> int:
        """Counts one more violation and returns the new count."""
        with self._lock:
            count = self._current_count(client) + 1
            if client not in self._counts and len(self._counts) >= _MAX_CLIENTS:
                self._evict_one_client()
            self._counts[client] = count
            self._last[client] = self._clock()
            return count

    def _current_count(self, client: str) -> int:
        if self._seconds is not None and self._clock() - self._last.get(client, 0.0) >= self._seconds:
            self._forget(client)
        return self._counts.get(client, 0)

    def _forget(self, client: str) -> None:
        self._counts.pop(client, None)
        self._last.pop(client, None)

    def _evict_one_client(self) -> None:
        """Forgets the client with the fewest violations, unless it is refused: new clients must not evict those."""
        fewest = min(self._counts, key=self._counts.__getitem__)
        if self._counts[fewest] < self._max_violations:
            self._forget(fewest)
