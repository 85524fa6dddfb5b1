"""Whatever is done to a cache in whatever order: it does what a list of files, looked through each time, would do."""

from __future__ import annotations

import itertools
import os
import tempfile
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.file_cache_suite.kit import Clock, Watched, cached
from toolyard.bridge.cache import CachedFile, CacheStatistics, FileCache, NewFile
from toolyard.bridge.cache_store import CacheTotal
from toolyard.bridge.errors import CacheRefusedError
from toolyard.bridge.memory_store import MemoryStore
from toolyard.bridge.sqlite_store import SqliteStore

pytestmark = pytest.mark.slow  # hundreds of examples each

MAX_BYTES, MAX_ENTRIES, TTL_SECONDS = 20, 5, 10.0
PATHS = ("a", "b", "c", "ü")
CLIENTS = ("", "one")
paths, clients = st.sampled_from(PATHS), st.sampled_from(CLIENTS)
sizes = st.integers(0, 9) | st.sampled_from((MAX_BYTES, MAX_BYTES + 1))
offsets = st.integers(-12, 12).map(float)
"""Of an mtime from the time it is now."""
news = st.tuples(paths, sizes, st.none() | offsets)


@dataclass
class Slow:
    """The rules once more, as plainly as they can be said."""

    clock: Clock
    files: list[tuple[str, CachedFile]] = field(default_factory=list)
    """With their clients, in the order of use."""
    stored: list[tuple[str, str]] = field(default_factory=list)
    """Clients and paths, in the order of storing."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("hits", "misses", "evictions", "expirations", "invalidations"), 0)
    )

    def find(self, client: str, path: str) -> CachedFile | None:
        return next((file for owner, file in self.files if (owner, file.path) == (client, path)), None)

    def drop(self, client: str, path: str) -> None:
        self.files = [(owner, file) for owner, file in self.files if (owner, file.path) != (client, path)]
        self.stored = [key for key in self.stored if key != (client, path)]

    def is_old(self, file: CachedFile) -> bool:
        return self.clock.now - file.stored > TTL_SECONDS

    def living(self, client: str, path: str) -> CachedFile | None:
        file = self.find(client, path)
        if file is not None and self.is_old(file):
            self.drop(client, path)
            self.counts["expirations"] += 1
            return None
        return file

    def put(self, client: str, new: list[CachedFile]) -> bool:
        size, names = sum(file.size for file in new), [file.path for file in new]
        if size > MAX_BYTES or len(new) > MAX_ENTRIES or len(set(names)) < len(names):
            return False
        for name in names:
            self.drop(client, name)
        while sum(file.size for _, file in self.files) + size > MAX_BYTES or len(self.files) + len(new) > MAX_ENTRIES:
            first = self.find(*self.stored[0])
            assert first is not None
            if self.is_old(first):
                self.drop(*self.stored[0])
                self.counts["expirations"] += 1
            else:
                self.drop(self.files[0][0], self.files[0][1].path)
                self.counts["evictions"] += 1
        self.files += [(client, file) for file in new]
        self.stored += [(client, file.path) for file in new]
        return True

    def get(self, client: str, path: str, mtime: float | None) -> CachedFile | None:
        file = self.living(client, path)
        if file is not None and mtime is not None and self.noticed(client, path, mtime):
            file = None
        if file is not None:
            self.files.remove((client, file))
            self.files.append((client, file))
        self.counts["misses" if file is None else "hits"] += 1
        return file

    def noticed(self, client: str, path: str, mtime: float) -> bool:
        file = self.living(client, path)
        if file is None or mtime <= (file.stored if file.mtime is None else file.mtime):
            return False
        self.drop(client, path)
        self.counts["invalidations"] += 1
        return True


class Machine(RuleBasedStateMachine):
    in_sqlite = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.numbers = itertools.cycle(range(256))
        self.slow = Slow(self.clock)
        self.folder = tempfile.TemporaryDirectory()
        self.cache = self.opened()

    def opened(self) -> FileCache:
        store = SqliteStore(os.path.join(self.folder.name, "cache")) if self.in_sqlite else MemoryStore()
        return FileCache(
            MAX_BYTES,
            max_entries=MAX_ENTRIES,
            ttl_seconds=TTL_SECONDS,
            clock=self.clock,
            store=Watched(store, CacheTotal(MAX_ENTRIES, MAX_BYTES)),
        )

    def teardown(self) -> None:
        self.cache.close()
        self.folder.cleanup()

    @rule(files=st.lists(news, max_size=6), client=clients, is_binary=st.booleans())
    def put(self, files: list[tuple[str, int, float | None]], client: str, is_binary: bool) -> None:
        new = [
            NewFile(
                path,
                bytes([next(self.numbers)]) * size,
                None if offset is None else self.clock.now + offset,
                is_binary=is_binary,
            )
            for path, size, offset in files
        ]
        expected = [
            cached(file.path, file.content, file.mtime, is_binary=is_binary, stored=self.clock.now) for file in new
        ]
        if self.slow.put(client, expected):
            assert self.cache.put_all(new, client=client) == tuple(expected)
        else:
            with pytest.raises(CacheRefusedError):
                self.cache.put_all(new, client=client)

    @rule(path=paths, offset=st.none() | offsets, client=clients)
    def get(self, path: str, offset: float | None, client: str) -> None:
        mtime = None if offset is None else self.clock.now + offset
        assert self.cache.get(path, mtime=mtime, client=client) == self.slow.get(client, path, mtime)

    @rule(path=paths, offset=offsets, client=clients)
    def notice(self, path: str, offset: float, client: str) -> None:
        mtime = self.clock.now + offset
        assert self.cache.drop_if_older(path, mtime, client=client) == self.slow.noticed(client, path, mtime)

    @rule(path=paths, client=clients)
    def remove(self, path: str, client: str) -> None:
        was_there = self.slow.living(client, path) is not None
        self.slow.drop(client, path)
        assert self.cache.remove(path, client=client) is was_there

    @rule(client=st.none() | clients)
    def clear(self, client: str | None) -> None:
        for owner, file in list(self.slow.files):
            if client in (None, owner):
                self.slow.drop(owner, file.path)
        self.cache.clear(client=client)

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds: int) -> None:
        self.clock.now += seconds

    @precondition(lambda self: self.in_sqlite)
    @rule()
    def open_again(self) -> None:
        self.cache.close()
        self.cache = self.opened()
        self.slow.counts = dict.fromkeys(self.slow.counts, 0)

    @invariant()
    def is_what_the_slow_one_has(self) -> None:
        size = sum(file.size for _, file in self.slow.files)
        assert self.cache.statistics == CacheStatistics(len(self.slow.files), size, **self.slow.counts)
        for client in CLIENTS:
            for path in PATHS:
                file = self.slow.find(client, path)
                expected = None if file is None or self.slow.is_old(file) else file
                assert self.cache.peek(path, client=client) == expected


class SqliteMachine(Machine):
    in_sqlite = True


TestInMemory = Machine.TestCase
TestInMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestInSqlite = SqliteMachine.TestCase
TestInSqlite.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
