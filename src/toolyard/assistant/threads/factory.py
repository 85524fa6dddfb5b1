"""From the configuration to a store of threads, and the rates that are shared where threads are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.config.assistant import IN_STATE, Assistant
from toolyard.core.closeable import Closing

if TYPE_CHECKING:
    from toolyard.assistant.threads.rate_limiter import Rates
    from toolyard.assistant.threads.store import ThreadStore


@dataclass(frozen=True, slots=True)
class Opened(Closing):
    threads: ThreadStore
    rates: Rates

    def close(self) -> None:
        self.threads.close()


def open_threads(assistant: Assistant, folder: str, namespace: str) -> Opened:
    """Nothing is made or connected to before it is used.

    `folder` is the workspace's state folder; `namespace` says in Redis whose threads these are. Raises SystemFault
    where a package is missing, ConfigError for an address that cannot be read.
    """
    # A server starts without SQLite, and most servers never need Redis.
    from toolyard.assistant.threads.rate_limiter import MemoryRates, RedisRates
    from toolyard.assistant.threads.store import Terms

    terms = Terms(assistant.thread_seconds, assistant.thread_turns)
    if assistant.storage == IN_STATE:
        from toolyard.assistant.threads.sqlite_store import SqliteThreads

        return Opened(SqliteThreads(folder, terms), MemoryRates())
    from toolyard.assistant.threads.redis_client import RedisLink
    from toolyard.assistant.threads.redis_store import RedisThreads

    link = RedisLink(assistant.storage)
    return Opened(RedisThreads(link, namespace, terms), RedisRates(link, namespace))
