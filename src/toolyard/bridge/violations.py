"""Who has asked how often for what they may not have. Past a threshold a client is refused until the restart."""

from __future__ import annotations

import threading

from toolyard.bridge.errors import ClientRefusedError

DEFAULT_MOST = 20
_MOST_CLIENTS = 10_000


class Violations:
    def __init__(self, most: int = DEFAULT_MOST) -> None:
        """`most` may happen; the next request after them is refused, and so is every other."""
        self._most = most
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, client: str) -> int:
        return self._counts.get(client, 0)

    def check(self, client: str) -> None:
        """Raises ClientRefusedError."""
        if (count := self.of(client)) >= self._most:
            raise ClientRefusedError(count)

    def add(self, client: str) -> int:
        """Count one more; how many there are now."""
        with self._lock:
            if client not in self._counts and len(self._counts) >= _MOST_CLIENTS:
                self._forget_one()
            self._counts[client] = count = self.of(client) + 1
            return count

    def _forget_one(self) -> None:
        """Whoever has tried least, and is not refused: clients that come and go must not push out one that is."""
        forgotten = min(self._counts, key=self._counts.__getitem__)
        if self._counts[forgotten] < self._most:
            del self._counts[forgotten]
