"""Published servers behind a pool."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from toolyard.config.models import ServerEntry
from toolyard.servers import ServerPool

from .. import published

START_SECONDS = 30


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


@contextlib.contextmanager
def listening(command: list[str], mode: str) -> Iterator[int]:
    """A server of the npm package in one of its HTTP modes; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PORT": str(port), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, mode], env=environment, **quiet) as server:
        try:
            end = time.monotonic() + START_SECONDS
            while not _answers(port):
                assert time.monotonic() < end, "it did not begin to listen"
                threading.Event().wait(0.05)
            yield port
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
