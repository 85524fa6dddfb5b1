"""The storage interface of `FileCache`. `tests/support/file_cache_suite` tests every implementation.

A store maintains two orders, of last use and of insertion, and the total size. It makes no decisions: the limits, the
expiry and the eviction order are implemented once, in `cache.py`. A store belongs to one FileCache, which calls it
from one thread at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

DAMAGED_HINT: Final = "Delete the file and its -wal and -shm files: everything in it can be fetched again."


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A client's file as it was received."""

    path: str
    content: bytes
    size: int
    """Size of the content in bytes."""
    mtime: float | None
    """Modification time at the client, in seconds since 1970; None if unknown."""
    encoding: str
    is_binary: bool
    stored: float
    """When it was stored in the cache, in seconds since 1970."""


class CacheKey(NamedTuple):
    """Identifies a cached file."""

    client: str
    path: str


class CacheTotal(NamedTuple):
    """The number of cached files and their total size."""

    entries: int
    bytes: int


class CacheStore(Protocol):
    """Stores the files of one cache. Every method may raise SystemFault.

    All but `purge` and `close` are called within `read_transaction` or `write_transaction`.
    """

    may_block: bool
    """Whether operations may wait for a disk and for other processes."""

    def read_transaction(self) -> AbstractContextManager[object]:
        """Provides a consistent view, unaffected by concurrent changes of other processes."""
        ...

    def write_transaction(self) -> AbstractContextManager[object]:
        """Makes the changes in the block atomic; if it raises SystemFault, nothing was changed."""
        ...

    def find(self, key: CacheKey) -> CachedFile | None:
        """Returns the file, or None if it is missing or fails its integrity check."""
        ...

    def add(self, key: CacheKey, file: CachedFile) -> None:
        """Adds a file as the last inserted and last used. The key must not exist."""
        ...

    def touch(self, key: CacheKey) -> None:
        """Marks the file as last used."""
        ...

    def drop(self, key: CacheKey) -> bool:
        """Drops the file and returns whether it existed, intact or not."""
        ...

    def oldest(self) -> float | None:
        """Returns when the first inserted file was stored; None if the store is empty."""
        ...

    def drop_oldest(self) -> None: ...

    def drop_least_used(self) -> None: ...

    def drop_all(self, client: str | None) -> None:
        """Drops the files of one client; None: of all clients."""
        ...

    def total(self) -> CacheTotal: ...

    def purge(self) -> None:
        """Makes dropped content unrecoverable."""
        ...

    def close(self) -> None: ...
