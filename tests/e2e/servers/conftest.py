"""Published servers behind a pool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.e2e import published
from toolyard.config.models import ServerEntry
from toolyard.mcp_client import ServerPool


@pytest.fixture(scope="session")
def everything() -> list[str]:
    """The command of the reference server that has everything."""
    return published.node_server("everything")


@pytest.fixture(scope="session")
def python_server() -> Callable[[str], str]:
    """The program of a server from PyPI, by its name."""
    return published.python_server


@pytest.fixture
def open_pool() -> Iterator[Callable[..., ServerPool]]:
    with contextlib.ExitStack() as pools:

        def make(*entries: ServerEntry, **options) -> ServerPool:
            return pools.enter_context(ServerPool(entries, **options))

        yield make
