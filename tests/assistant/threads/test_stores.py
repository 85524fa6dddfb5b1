"""Every store of threads passes the same suite: SQLite, and a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.thread_store_suite.concurrency import Processes, Together
from tests.support.thread_store_suite.kit import Kit, Subject
from tests.support.thread_store_suite.turns import Deleting, Finding, Refusals, Turns
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_store import RedisThreads
from toolyard.assistant.threads.sqlite_store import SqliteThreads

SQLITE = """
from toolyard.assistant.threads.sqlite_store import SqliteThreads
store = SqliteThreads({folder!r}, ThreadLimits(3600.0, 1000))
"""
REDIS = """
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_store import RedisThreads
store = RedisThreads(RedisClient({url!r}), {namespace!r}, ThreadLimits(3600.0, 1000), {lease})
"""
LEASE_SECONDS = 2.0


@pytest.fixture(params=["sqlite", "redis"])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    if request.param == "sqlite":
        folder = str(tmp_path)
        subject = Subject(lambda terms: SqliteThreads(folder, terms), SQLITE.format(folder=folder))
    else:
        url = request.getfixturevalue("redis_server").url
        namespace = request.getfixturevalue("namespace")
        subject = Subject(
            lambda terms: RedisThreads(RedisClient(url), namespace, terms, LEASE_SECONDS),
            REDIS.format(url=url, namespace=namespace, lease=LEASE_SECONDS),
        )
    with Kit(subject) as kit:
        yield kit


class TestTurns(Turns): ...


class TestRefusals(Refusals): ...


class TestFinding(Finding): ...


class TestDeleting(Deleting): ...


class TestTogether(Together): ...


class TestProcesses(Processes): ...
