"""Every cache of files passes the same suite: in memory, and in SQLite. What is particular to memory is below."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.file_cache_suite.kit import Kit
from tests.support.file_cache_suite.rules import Batches, Changes, Clients, Expiring, Keeping, Limits, Together
from toolyard.bridge.cache import FileCache
from toolyard.bridge.memory_store import MemoryStore
from toolyard.bridge.sqlite_store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    numbers = itertools.count()
    in_sqlite = request.param == "sqlite"
    with Kit(lambda: SqliteStore(tmp_path / f"{next(numbers)}.sqlite3") if in_sqlite else MemoryStore()) as kit:
        yield kit


class TestKeeping(Keeping): ...


class TestLimits(Limits): ...


class TestExpiring(Expiring): ...


class TestChanges(Changes): ...


class TestClients(Clients): ...


class TestBatches(Batches): ...


class TestTogether(Together): ...


def test_without_a_word_there_are_64_mebibytes_for_an_hour() -> None:
    now = 0.0
    with FileCache(clock=lambda: now) as cache:
        cache.put("a", b"x" * 2**26)
        now = 3_600.0
        assert cache.peek("a") is not None
        now += 1
        assert cache.peek("a") is None


def test_nothing_is_remembered_of_clients_that_have_no_files() -> None:
    store = MemoryStore()
    with FileCache(2, store=store) as cache:
        for number in range(50):
            cache.put("a", b"x", client=str(number))
        assert len(store._keys_by_client) == 2
        cache.clear()
        assert store._keys_by_client == {}
