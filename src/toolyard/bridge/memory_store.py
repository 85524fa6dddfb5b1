"""A cache store in memory. Its operations never fail, and take constant time."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from contextlib import AbstractContextManager

from toolyard.bridge.cache_store import CachedFile, CacheKey, CacheTotal


class MemoryStore:
    """A `CacheStore` in memory."""

    may_block = False

    def __init__(self) -> None:
        # Not plain dicts: finding the first key of a dict skips all entries that were deleted before it.
        self._files: OrderedDict[CacheKey, CachedFile] = OrderedDict()
        """In insertion order."""
        self._usage_order: OrderedDict[CacheKey, None] = OrderedDict()
        """In order of last use."""
        self._keys_by_client: dict[str, set[CacheKey]] = {}
        """The keys of each client."""
        self._bytes = 0
        self._no_transaction = contextlib.nullcontext()

    def read_transaction(self) -> AbstractContextManager[object]:
        return self._no_transaction

    def write_transaction(self) -> AbstractContextManager[object]:
        return self._no_transaction

    def find(self, key: CacheKey) -> CachedFile | None:
        return self._files.get(key)

    def add(self, key: CacheKey, file: CachedFile) -> None:
        self._files[key] = file
        self._usage_order[key] = None
        self._keys_by_client.setdefault(key.client, set()).add(key)
        self._bytes += file.size

    def touch(self, key: CacheKey) -> None:
        self._usage_order.move_to_end(key)

    def drop(self, key: CacheKey) -> bool:
        file = self._files.pop(key, None)
        if file is None:
            return False
        del self._usage_order[key]
        self._bytes -= file.size
        of_client = self._keys_by_client[key.client]
        of_client.remove(key)
        if not of_client:
            del self._keys_by_client[key.client]
        return True

    def oldest(self) -> float | None:
        return next((file.stored for file in self._files.values()), None)

    def drop_oldest(self) -> None:
        self.drop(next(iter(self._files)))

    def drop_least_used(self) -> None:
        self.drop(next(iter(self._usage_order)))

    def drop_all(self, client: str | None) -> None:
        for key in list(self._files) if client is None else list(self._keys_by_client.get(client, ())):
            self.drop(key)

    def total(self) -> CacheTotal:
        return CacheTotal(len(self._files), self._bytes)

    def purge(self) -> None:
        """Does nothing: dropped content is not stored anywhere."""

    def close(self) -> None:
        self.drop_all(None)
