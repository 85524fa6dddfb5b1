"""A Redis server for a whole session of tests; each test has a namespace of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex}"
