"""Time that passes at once: what happens after a while is tested without waiting, whatever the load."""

from __future__ import annotations

import asyncio
import threading
import time

WAIT = 30.0


class Clock:
    """Stands for the module `time`: it goes on by itself, and can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def put_forward(self, seconds: float) -> None:
        self.ahead += seconds

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


def put_forward(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Let a loop that runs in another thread, and all that waits on it, believe that so much time has passed."""
    done = threading.Event()

    def jump() -> None:
        put_own_forward(loop, seconds)
        done.set()

    loop.call_soon_threadsafe(jump)
    assert done.wait(WAIT)


def put_own_forward(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """The same, on the loop's own thread."""
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
