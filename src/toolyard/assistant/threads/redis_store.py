"""Stores threads in Redis, for several servers that share them, under the keys `toolyard:<namespace>:...`.

    thread:<id>   times of creation, last change and expiry, number of turns, summary
    turns:<id>    the turns, as bytes
    gone:<id>     marks a thread that existed; outlives the two above by a year
    threads       all ids, by time of last change
    hold:<id>     the current holder; queue:<id> and seen:<id>, the waiting ones

Times are those of the Redis server. A turn is as durable as that server's configuration: see `appendonly` and
`appendfsync`. A RedisThreads owns the client that it is given.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

from toolyard.assistant.threads.codec import DamagedError, decode_summary, decode_turn, encode_summary, encode_turn
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_lock import LEASE_SECONDS, RedisThreadLock
from toolyard.assistant.threads.search import search_threads
from toolyard.assistant.threads.store import (
    DEFAULT_LIST_LIMIT,
    OPEN_TURN_GRACE_SECONDS,
    TOMBSTONE_SECONDS,
    ExpiredThread,
    OpenTurn,
    ThreadLimits,
    UnknownThread,
    new_thread,
    require_id,
)
from toolyard.assistant.threads.thread import Thread, ThreadHit, ThreadSummary, Turn
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault

_BATCH = 200
_NO_TOKEN = ""
_FIELDS = ("created", "updated", "expires", "turns", "about")

# KEYS: thread, turns, gone, threads, hold. ARGV: token, number of turns before, turn, summary, id, and in
# milliseconds the lifetimes of the thread, its text and its id. Idempotent: the same turn is not added twice.
_KEEP_SCRIPT = """
local holder = redis.call('GET', KEYS[5])
if holder and holder ~= ARGV[1] then return {'held'} end
local count, before = redis.call('LLEN', KEYS[2]), tonumber(ARGV[2])
local is_kept = count == before + 1 and redis.call('LINDEX', KEYS[2], -1) == ARGV[3]
if count > before and not is_kept then return {'held'} end
if count < before then return {redis.call('EXISTS', KEYS[3]) == 1 and 'expired' or 'unknown'} end
if not is_kept then redis.call('RPUSH', KEYS[2], ARGV[3]) end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local written = string.format('%.6f', now)
redis.call('HSETNX', KEYS[1], 'created', written)
redis.call('HSET', KEYS[1], 'updated', written, 'expires', string.format('%.6f', now + ARGV[6] / 1000),
  'turns', before + 1, 'about', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[7])
redis.call('PEXPIRE', KEYS[2], ARGV[7])
redis.call('SET', KEYS[3], '', 'PX', ARGV[8])
redis.call('ZADD', KEYS[4], written, ARGV[5])
if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[7]) then redis.call('PEXPIRE', KEYS[4], ARGV[7]) end
return {'kept', redis.call('HGET', KEYS[1], 'created'), written}
"""


class RedisThreads(Closeable):
    """A ThreadStore in Redis."""

    def __init__(
        self, client: RedisClient, namespace: str, limits: ThreadLimits, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._client = client
        self._prefix = f"toolyard:{namespace}:"
        self._limits = limits
        self._lock = RedisThreadLock(client, self._prefix, lease_seconds)

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def turn(self, thread: str | None, check_can_wait: Callable[[], None]) -> Generator[OpenTurn]:
        with contextlib.ExitStack() as stack:
            token = _NO_TOKEN
            if thread is None:
                found = new_thread(time.time())  # no other client knows its id yet
            else:
                self._require_thread(thread)
                token = stack.enter_context(self._lock.acquire(thread, check_can_wait))
                found = self.read(thread)
            opened = OpenTurn(found, self._limits, functools.partial(self._keep, token))
            stack.callback(opened.end)
            yield opened

    def _keep(self, token: str, thread: Thread, turn: Turn) -> Thread:
        updated_thread = thread.with_turn(turn, thread.updated)
        lasts = self._limits.seconds
        spans = (lasts, lasts + OPEN_TURN_GRACE_SECONDS, lasts + TOMBSTONE_SECONDS)
        status, *times = self._client.run_script(
            _KEEP_SCRIPT,
            (*self._keys(thread.id), f"{self._prefix}threads", self._lock.lock_key(thread.id)),
            (
                *(token, len(thread.turns), encode_turn(turn), encode_summary(updated_thread.summary), thread.id),
                *(round(seconds * 1_000) for seconds in spans),
            ),
        )
        match status:
            case b"held":
                raise SystemFault(
                    f"Another call continued thread {thread.id}: this one was suspended or offline for too long.",
                    hint="Ask again.",
                    retryable=True,
                )
            case b"expired":
                raise ExpiredThread(thread.id)
            case b"unknown":
                raise UnknownThread(thread.id)
            case _:
                created, updated = map(float, times)
                return replace(updated_thread, created=created, updated=updated)

    def read(self, thread: str) -> Thread:
        require_id(thread)
        about, turns, gone = self._keys(thread)
        fields, was_there, now, stored_turns = self._client.run_commands(
            ("HMGET", about, *_FIELDS), ("EXISTS", gone), ("TIME",), ("LRANGE", turns, 0, -1)
        )
        created, updated = self._times(thread, fields, now, was_there=bool(was_there))
        with self._translate_errors():
            return Thread(thread, created, updated, tuple(map(decode_turn, stored_turns)))

    def ids_with_prefix(self, prefix: str) -> tuple[str, ...]:
        ids = [each for each in self._ids(0, -1) if each.startswith(prefix)]
        return tuple(sorted(summary.id for summary in self._summaries(ids)))

    def list(self, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadSummary, ...]:
        found: list[ThreadSummary] = []
        begin = 0
        while len(found) < most and (ids := self._ids(begin, begin + _BATCH - 1)):
            found += self._summaries(ids)
            begin += len(ids)
        return tuple(found[:most])

    def search(self, words: str, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadHit, ...]:
        return search_threads(self, words, most)

    def delete(self, thread: str) -> bool:
        try:
            self._require_thread(thread)
        except (UnknownThread, ExpiredThread):
            return False
        about, turns, gone = self._keys(thread)
        was_there, *_ = self._client.run_commands(
            ("DEL", about), ("DEL", turns), ("DEL", gone), ("ZREM", f"{self._prefix}threads", thread)
        )
        return bool(was_there)

    def _keys(self, thread: str) -> tuple[str, str, str]:
        return f"{self._prefix}thread:{thread}", f"{self._prefix}turns:{thread}", f"{self._prefix}gone:{thread}"

    def _require_thread(self, thread: str) -> None:
        """Raises UnknownThread or ExpiredThread."""
        require_id(thread)
        about, _, gone = self._keys(thread)
        fields, was_there, now = self._client.run_commands(("HMGET", about, *_FIELDS), ("EXISTS", gone), ("TIME",))
        self._times(thread, fields, now, was_there=bool(was_there))

    def _times(self, thread: str, fields: list[Any], now: Any, *, was_there: bool) -> tuple[float, float]:
        """Returns the times of creation and last change. Raises UnknownThread or ExpiredThread."""
        if None in fields:
            raise ExpiredThread(thread) if was_there else UnknownThread(thread)
        created, updated, expires = map(float, fields[:3])
        if expires <= _server_seconds(now):
            raise ExpiredThread(thread)
        return created, updated

    def _ids(self, first: int, last: int) -> list[str]:
        """Returns ids by time of last change, newest first."""
        (found,) = self._client.run_commands(("ZREVRANGE", f"{self._prefix}threads", first, last))
        return [each.decode("ascii", "replace") for each in found]

    def _summaries(self, ids: Iterable[str]) -> list[ThreadSummary]:
        """Returns the summaries of those threads that exist and have not expired."""
        wanted = list(ids)
        now, *rows = self._client.run_commands(
            ("TIME",), *(("HMGET", self._keys(each)[0], *_FIELDS) for each in wanted)
        )
        found: list[ThreadSummary] = []
        for thread, (created, updated, expires, turns, about) in zip(wanted, rows, strict=True):
            if about is not None and float(expires) > _server_seconds(now):
                with self._translate_errors():
                    found.append(
                        decode_summary(
                            about, thread=thread, created=float(created), updated=float(updated), turns=int(turns)
                        )
                    )
        return found

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except DamagedError as error:
            raise SystemFault(
                f"The data in Redis at {self._client.address} is damaged: {error}.",
                hint="Check which other program writes keys that start with `toolyard:` there.",
            ) from error


def _server_seconds(now: Any) -> float:
    seconds, microseconds = now
    return int(seconds) + int(microseconds) / 1_000_000
