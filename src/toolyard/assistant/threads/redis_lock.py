"""Locks threads that servers share through Redis: one holder at a time, in order of arrival.

Waiters stand in a queue and are dropped from it if they have not polled for a while. The holder renews its lease from
a background thread; after a crash the lease expires. A holder that was suspended for longer than its lease finds the
thread taken when it stores its turn.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Generator

from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.store import WAIT_SECONDS
from toolyard.core.errors import SystemFault

LEASE_SECONDS = 15.0
_WAITER_TIMEOUT_SECONDS = 3.0
"""A waiter that has not polled for this long has died, or gave up without leaving the queue."""
_RENEWALS = 4
"""Renewals per lease: some of them may fail."""

# KEYS: hold, queue, seen. ARGV: token, and in milliseconds lease and timeout of waiters. Idempotent.
_ENTER_SCRIPT = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[3], now, ARGV[1])
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[3])) do
  redis.call('ZREM', KEYS[2], silent)
  redis.call('ZREM', KEYS[3], silent)
end
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[2], (tonumber(last) or 0) + 1, ARGV[1])
end
if redis.call('ZRANGE', KEYS[2], 0, 0)[1] == ARGV[1]
    and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  return 1
end
redis.call('PEXPIRE', KEYS[2], 10 * ARGV[3])
redis.call('PEXPIRE', KEYS[3], 10 * ARGV[3])
return 0
"""
_RENEW_SCRIPT = """
local holder = redis.call('GET', KEYS[1])
if not holder or holder == ARGV[1] then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
"""
_LEAVE_SCRIPT = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
"""


class RedisThreadLock:
    """Locks of threads, as leases in Redis."""

    def __init__(self, client: RedisClient, prefix: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._client = client
        self._prefix = prefix
        self._lease_seconds = lease_seconds

    def lock_key(self, thread: str) -> str:
        """Returns the key that names the holder of a thread."""
        return f"{self._prefix}hold:{thread}"

    @contextlib.contextmanager
    def acquire(self, thread: str, check_can_wait: Callable[[], None]) -> Generator[str]:
        """Holds the thread inside the block; yields the holder's token.

        Raises SystemFault, and what `check_can_wait` raises.
        """
        token = secrets.token_hex(16)
        keys = (self.lock_key(thread), f"{self._prefix}queue:{thread}", f"{self._prefix}seen:{thread}")
        lease, silence = round(self._lease_seconds * 1_000), round(_WAITER_TIMEOUT_SECONDS * 1_000)
        try:
            while not self._client.run_script(_ENTER_SCRIPT, keys, (token, lease, silence)):
                check_can_wait()
                time.sleep(WAIT_SECONDS)
            with self._renew_in_background(keys[0], token, lease):
                yield token
        finally:
            with contextlib.suppress(SystemFault):  # the lease expires
                self._client.run_script(_LEAVE_SCRIPT, keys, (token,))

    @contextlib.contextmanager
    def _renew_in_background(self, key: str, token: str, lease: int) -> Generator[None]:
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(self._lease_seconds / _RENEWALS):
                with contextlib.suppress(SystemFault):  # the next renewal may succeed
                    self._client.run_script(_RENEW_SCRIPT, (key,), (token, lease))

        renewing = threading.Thread(target=renew, name="toolyard-hold", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            is_over.set()
            renewing.join()  # a late renewal would lock the thread without a holder
