"""Entries for the scripted server, and what tests ask of processes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from toolyard.config.models import ServerEntry

SERVER = ("-m", "toolyard.testing.mock_mcp_server")
PATIENCE_SECONDS = 20


def upstream(name: str = "up", *options: str, **more) -> ServerEntry:
    """An entry for the scripted server."""
    return ServerEntry(name=name, command=sys.executable, args=(*SERVER, *options), **more)


def faulty(fault: str, name: str = "up", **more) -> ServerEntry:
    return upstream(name, "--fault", fault, **more)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], object]) -> None:
    """Wait for something that only the kernel or another process can bring about."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        threading.Event().wait(0.01)
