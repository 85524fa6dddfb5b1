"""Pools on the scripted server, closed at the end of each test; nothing of them may be left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.support.fake_clock import Clock
from toolyard.config.models import ServerEntry
from toolyard.mcp_client import ServerPool, managed_server

from .upstreams import is_alive

FIRST_PAUSE = 20.0


@pytest.fixture
def open_pool() -> Iterator[Callable[..., ServerPool]]:
    pools: list[ServerPool] = []

    def make(*entries: ServerEntry, **options) -> ServerPool:
        pools.append(ServerPool(entries, **options))
        return pools[-1]

    before = set(os.listdir("/proc/self/fd"))
    yield make
    for pool in pools:
        pids = [status.pid for status in pool.status().values() if status.pid]
        pool.close()
        assert not [pid for pid in pids if is_alive(pid)]
    assert len(os.listdir("/proc/self/fd")) <= len(before), "descriptors were left open"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which servers are left alone or closed. Pauses are so long that none is over by itself."""
    made = Clock()
    monkeypatch.setattr(managed_server, "time", made)
    monkeypatch.setattr(managed_server, "_FIRST_PAUSE_SECONDS", FIRST_PAUSE)
    return made
