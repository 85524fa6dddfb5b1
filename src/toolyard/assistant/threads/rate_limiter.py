"""Limits how often a client may use a tool, with one token bucket per client and tool.

A rate of 10/minute is a bucket that starts with ten tokens and gains one every six seconds. A call takes a token, or
learns how long to wait for one.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.config.assistant import Rate

_ALMOST_ONE = 1 - 1e-9
"""Tolerates rounding: a client that waits exactly as long as it was asked to gets a token."""
_MOST_BUCKETS = 1_000
_SPARE_MILLISECONDS = 1_000

# KEYS: bucket. ARGV: capacity, tokens a second, almost one, how long it takes to fill up in milliseconds.
_TAKE_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(kept[1] or ARGV[1]), tonumber(kept[2] or now)
tokens = math.min(tonumber(ARGV[1]), tokens + math.max(now - at, 0) * ARGV[2])
local wait = 0
if tokens >= tonumber(ARGV[3]) then tokens = tokens - 1 else wait = (1 - tokens) / ARGV[2] end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return string.format('%.17g', wait)
"""


class RateLimiter(Protocol):
    """Counts calls per client and tool."""

    def take_token(self, client: str, tool: str, rate: Rate) -> float:
        """Takes a token and returns 0.0; if there is none, returns the seconds until there is one."""
        ...


@dataclass(slots=True)
class _Bucket:
    """Tokens of one client and tool."""

    tokens: float
    at: float
    fill_seconds: float

    def take_token(self, rate: Rate, now: float) -> float:
        speed = rate.calls / rate.seconds
        self.tokens = min(float(rate.calls), self.tokens + max(now - self.at, 0.0) * speed)
        self.at, self.fill_seconds = now, rate.seconds
        if self.tokens < _ALMOST_ONE:
            return (1 - self.tokens) / speed
        self.tokens -= 1
        return 0.0

    def is_full(self, now: float) -> bool:
        return now - self.at >= self.fill_seconds


class MemoryRateLimiter:
    """Rate limits of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def take_token(self, client: str, tool: str, rate: Rate) -> float:
        with self._lock:
            now = self._clock()
            bucket = self._buckets.get((client, tool))
            if bucket is None:
                self._drop_full_buckets(now)
                bucket = self._buckets[client, tool] = _Bucket(float(rate.calls), now, rate.seconds)
            return bucket.take_token(rate, now)

    def _drop_full_buckets(self, now: float) -> None:
        """Drops full buckets, which are equivalent to none, once there are many."""
        if len(self._buckets) >= _MOST_BUCKETS:
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.is_full(now)}


class RedisRateLimiter:
    """Rate limits shared by all servers of a namespace, by the clock of the Redis server."""

    def __init__(self, client: RedisClient, namespace: str) -> None:
        self._client = client
        self._prefix = f"toolyard:{namespace}:rate:"

    def take_token(self, client: str, tool: str, rate: Rate) -> float:
        """Raises SystemFault if Redis fails."""
        # Clients choose their names: hash them to limit the length.
        name = hashlib.blake2b(f"{client}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        fills_in = round(rate.seconds * 1_000) + _SPARE_MILLISECONDS
        speed = repr(rate.calls / rate.seconds)
        return float(
            self._client.run_script(
                _TAKE_SCRIPT, (f"{self._prefix}{name}",), (rate.calls, speed, repr(_ALMOST_ONE), fills_in)
            )
        )
