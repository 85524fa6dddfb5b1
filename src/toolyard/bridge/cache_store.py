"""The storage interface of `FileCache`. `tests/support/file_cache_suite` tests every implementation.

A store knows two orders, of use and of storing, and what all of it takes together. It decides nothing: how much there
may be, what is too old and what goes first is said once, in `cache.py`. A store belongs to one FileCache, which calls
it from one thread at a time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

DAMAGED_HINT: Final = "Delete the file, with those beside it: all in it can be had again."


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of a client as it was handed over."""

    path: str
    content: bytes
    size: int
    """In bytes: of the content."""
    mtime: float | None
    """When it was last changed at the client's, in seconds since 1970; None where nobody said."""
    encoding: str
    is_binary: bool
    stored: float
    """When it came into the cache, in seconds since 1970."""


class CacheKey(NamedTuple):
    client: str
    path: str


class CacheTotal(NamedTuple):
    entries: int
    bytes: int


class CacheStore(Protocol):
    """Every method may raise SystemFault. All but `purge` and `close` are called within `read_transaction` or `write_transaction`."""

    may_block: bool
    """Whether it waits for a disk, and for others who share it."""

    def read_transaction(self) -> AbstractContextManager[object]:
        """One picture of everything, whatever others who share it change meanwhile."""
        ...

    def write_transaction(self) -> AbstractContextManager[object]:
        """What is done within is one step for everybody; where it raises SystemFault, nothing was done."""
        ...

    def find(self, key: CacheKey) -> CachedFile | None:
        """None also for what is there and fails its check."""
        ...

    def add(self, key: CacheKey, file: CachedFile) -> None:
        """As the last one stored, and the last one used. There is none under this key."""
        ...

    def touch(self, key: CacheKey) -> None:
        """It is the last one used."""
        ...

    def drop(self, key: CacheKey) -> bool:
        """Whether there was one, whatever its check says."""
        ...

    def oldest(self) -> float | None:
        """When the first one of the order of storing was stored; None where there is nothing."""
        ...

    def drop_oldest(self) -> None: ...

    def drop_least_used(self) -> None: ...

    def drop_all(self, client: str | None) -> None:
        """Those of one client; None: everybody's."""
        ...

    def total(self) -> CacheTotal: ...

    def purge(self) -> None:
        """Of what was dropped nothing stays readable anywhere."""
        ...

    def close(self) -> None: ...
