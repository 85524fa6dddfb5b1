"""A rate with bursts: a bucket that starts full, loses a token with each event, and fills up steadily."""

from __future__ import annotations

import time


class TokenBucket:
    __slots__ = ("_capacity", "_left", "_per_second", "_seen")

    def __init__(self, capacity: float, per_second: float) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._left = capacity
        self._seen = time.monotonic()

    def take(self) -> bool:
        """Take one token. False where there is none: events come faster than the rate, and the burst is used up."""
        if self._left < 1:
            now = time.monotonic()
            self._left = min(self._capacity, self._left + (now - self._seen) * self._per_second)
            self._seen = now
            if self._left < 1:
                return False
        self._left -= 1
        return True
