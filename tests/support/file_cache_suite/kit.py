"""What every cache of files must do, whatever it keeps them in: the equipment. The cases are in `file_caches_rules`.

A test module says which store it is about and takes the cases over:

    @pytest.fixture
    def kit():
        with Kit(MemoryStore) as kit:
            yield kit

    class TestKeeping(Keeping): ...

A Kit owns the caches that it opened until `close()`. Each has a store of its own, and nothing in it but what the test
put; between the two somebody looks on, who fails the test in the moment in which a limit is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from toolyard.bridge.cache import CachedFile, FileCache, NewFile
from toolyard.bridge.cache_store import CacheKey, CacheStore, CacheTotal
from toolyard.core.closeable import Closeable

START = 1_700_000_000.0


@dataclass(slots=True)
class Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


class Watched:
    """A store, and somebody who looks at its total after each file that comes in."""

    def __init__(self, store: CacheStore, most: CacheTotal) -> None:
        self._store = store
        self._most = most
        self.may_block = store.may_block
        self.read_transaction: Callable[[], AbstractContextManager[object]] = store.read_transaction
        self.write_transaction: Callable[[], AbstractContextManager[object]] = store.write_transaction
        self.find, self.touch, self.drop = store.find, store.touch, store.drop
        self.oldest, self.drop_oldest, self.drop_least_used = store.oldest, store.drop_oldest, store.drop_least_used
        self.drop_all, self.total, self.purge, self.close = store.drop_all, store.total, store.purge, store.close

    def add(self, key: CacheKey, file: CachedFile) -> None:
        self._store.add(key, file)
        total = self._store.total()
        assert total.entries <= self._most.entries
        assert total.bytes <= self._most.bytes


@dataclass
class Kit(Closeable):
    make: Callable[[], CacheStore]
    """A store with nothing in it."""
    clock: Clock = field(default_factory=Clock)
    _caches: list[FileCache] = field(default_factory=list[FileCache])

    def open(
        self, max_bytes: int = 1_000_000, *, max_entries: int = 1_000, ttl_seconds: float | None = 60.0
    ) -> FileCache:
        cache = FileCache(
            max_bytes,
            max_entries=max_entries,
            ttl_seconds=ttl_seconds,
            clock=self.clock,
            store=Watched(self.make(), CacheTotal(max_entries, max_bytes)),
        )
        self._caches.append(cache)
        return cache

    def close(self) -> None:
        for cache in self._caches:
            cache.close()


def kept(cache: FileCache, paths: str = "abcdefgh", client: str = "") -> str:
    """Those of the paths, each of one letter, that the cache has."""
    return "".join(path for path in paths if cache.peek(path, client=client) is not None)


def batch(sizes: dict[str, int]) -> list[NewFile]:
    return [NewFile(path, b"x" * size) for path, size in sizes.items()]


def cached(
    path: str,
    content: bytes,
    mtime: float | None = None,
    encoding: str = "utf-8",
    *,
    is_binary: bool = False,
    stored: float = START,
) -> CachedFile:
    return CachedFile(path, content, len(content), mtime, encoding, is_binary, stored)
