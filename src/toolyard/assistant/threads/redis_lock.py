"""Who may go on with a thread that servers share through Redis: one at a time, in order of arrival.

Those who wait stand in a queue, and are dropped from it when they have not asked for a while. Whoever holds a thread
renews that again and again, from a thread of its own; after it was killed, the hold lapses. Someone who was stopped
for longer than that, and goes on, finds the thread taken when it keeps its turn.
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
"""After which whoever waits has died, or gave up and could not say so."""
_RENEWALS = 4
"""In a lease: some may fail."""

# KEYS: hold, queue, seen. ARGV: token, lease, silence, in milliseconds. Asking again is no harm.
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
    def __init__(self, client: RedisClient, prefix: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._client = client
        self._prefix = prefix
        self._lease_seconds = lease_seconds

    def lock_key(self, thread: str) -> str:
        """Where it is said who holds a thread."""
        return f"{self._prefix}hold:{thread}"

    @contextlib.contextmanager
    def acquire(self, thread: str, check_can_wait: Callable[[], None]) -> Generator[str]:
        """The token that says who we are. Raises SystemFault, and what `check_can_wait` raises."""
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
            with contextlib.suppress(SystemFault):  # it lapses
                self._client.run_script(_LEAVE_SCRIPT, keys, (token,))

    @contextlib.contextmanager
    def _renew_in_background(self, key: str, token: str, lease: int) -> Generator[None]:
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(self._lease_seconds / _RENEWALS):
                with contextlib.suppress(SystemFault):  # the next one may get through
                    self._client.run_script(_RENEW_SCRIPT, (key,), (token, lease))

        renewing = threading.Thread(target=renew, name="toolyard-hold", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            is_over.set()
            renewing.join()  # a renewal that came after the end would hold the thread for nobody
