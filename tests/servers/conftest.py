"""Pools on the scripted server, closed at the end of each test; nothing of them may be left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from toolyard.config.models import ServerEntry
from toolyard.servers import ServerPool

from .upstreams import is_alive


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
