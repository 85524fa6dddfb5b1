"""Cached files in memory. Nothing here fails, and nothing takes longer the more there is."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from contextlib import AbstractContextManager

from toolyard.bridge.cache_store import CachedFile, Key, Total


class MemoryStore:
    may_wait = False

    def __init__(self) -> None:
        # Not plain dicts: the first of one is found by passing over all that were ever taken out before it.
        self._files: OrderedDict[Key, CachedFile] = OrderedDict()
        """In the order of storing."""
        self._used: OrderedDict[Key, None] = OrderedDict()
        """In the order of use."""
        self._of: dict[str, set[Key]] = {}
        """By client."""
        self._bytes = 0
        self._step = contextlib.nullcontext()

    def reading(self) -> AbstractContextManager[object]:
        return self._step

    def changing(self) -> AbstractContextManager[object]:
        return self._step

    def find(self, key: Key) -> CachedFile | None:
        return self._files.get(key)

    def add(self, key: Key, file: CachedFile) -> None:
        self._files[key] = file
        self._used[key] = None
        self._of.setdefault(key.client, set()).add(key)
        self._bytes += file.size

    def touch(self, key: Key) -> None:
        self._used.move_to_end(key)

    def drop(self, key: Key) -> bool:
        file = self._files.pop(key, None)
        if file is None:
            return False
        del self._used[key]
        self._bytes -= file.size
        of_client = self._of[key.client]
        of_client.remove(key)
        if not of_client:
            del self._of[key.client]
        return True

    def oldest(self) -> float | None:
        return next((file.stored for file in self._files.values()), None)

    def drop_oldest(self) -> None:
        self.drop(next(iter(self._files)))

    def drop_least_used(self) -> None:
        self.drop(next(iter(self._used)))

    def drop_all(self, client: str | None) -> None:
        for key in list(self._files) if client is None else list(self._of.get(client, ())):
            self.drop(key)

    def total(self) -> Total:
        return Total(len(self._files), self._bytes)

    def purge(self) -> None:
        """There is nothing left to do."""

    def close(self) -> None:
        self.drop_all(None)
