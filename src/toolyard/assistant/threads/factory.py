"""From the configuration to a store of threads, and the rates that are shared where threads are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.config.assistant import SQLITE_STORAGE, Assistant
from toolyard.core.closeable import Closeable

if TYPE_CHECKING:
    from toolyard.assistant.threads.rate_limiter import RateLimiter
    from toolyard.assistant.threads.store import ThreadStore


@dataclass(frozen=True, slots=True)
class ThreadServices(Closeable):
    threads: ThreadStore
    rate_limiter: RateLimiter

    def close(self) -> None:
        self.threads.close()


def open_threads(assistant: Assistant, folder: str, namespace: str) -> ThreadServices:
    """Nothing is made or connected to before it is used.

    `folder` is the workspace's state folder; `namespace` says in Redis whose threads these are. Raises SystemFault
    where a package is missing, ConfigError for an address that cannot be read.
    """
    # A server starts without SQLite, and most servers never need Redis.
    from toolyard.assistant.threads.rate_limiter import MemoryRateLimiter, RedisRateLimiter
    from toolyard.assistant.threads.store import ThreadLimits

    terms = ThreadLimits(assistant.thread_seconds, assistant.thread_turns)
    if assistant.storage == SQLITE_STORAGE:
        from toolyard.assistant.threads.sqlite_store import SqliteThreads

        return ThreadServices(SqliteThreads(folder, terms), MemoryRateLimiter())
    from toolyard.assistant.threads.redis_client import RedisClient
    from toolyard.assistant.threads.redis_store import RedisThreads

    link = RedisClient(assistant.storage)
    return ThreadServices(RedisThreads(link, namespace, terms), RedisRateLimiter(link, namespace))
