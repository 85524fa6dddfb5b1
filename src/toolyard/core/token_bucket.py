"""A rate limit with bursts: a bucket that starts full, loses one token per event, and refills steadily."""

from __future__ import annotations

import time


class TokenBucket:
    """Allows `capacity` events at once and `per_second` events over time."""

    __slots__ = ("_capacity", "_per_second", "_refilled_at", "_tokens")

    def __init__(self, capacity: float, per_second: float) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._tokens = capacity
        self._refilled_at = time.monotonic()

    def take(self) -> bool:
        """Takes one token. Returns False if the bucket is empty: events exceed the rate, and the burst is used up."""
        if self._tokens < 1:
            now = time.monotonic()
            self._tokens = min(self._capacity, self._tokens + (now - self._refilled_at) * self._per_second)
            self._refilled_at = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True
