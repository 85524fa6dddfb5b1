"""Opens the configured thread store and the rate limiter that goes with it."""

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
    """The thread store and the rate limiter. Closing it closes the store."""

    threads: ThreadStore
    rate_limiter: RateLimiter

    def close(self) -> None:
        self.threads.close()


def open_threads(assistant: Assistant, folder: str, namespace: str) -> ThreadServices:
    """Opens the configured store. Nothing is created or connected before first use.

    `folder` is the workspace's state folder; `namespace` separates the threads of workspaces in Redis. Raises
    SystemFault if a package is missing, ConfigError for an invalid URL.
    """
    # Imported late: a server starts without SQLite, and most servers never need Redis.
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
