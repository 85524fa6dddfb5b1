"""Runs deferred work in a thread, so that an event loop does not wait for it.

A `Debouncer` belongs to one loop and owns the task in progress. Requests that arrive during the delay are served by
the same run. Call `run_now()` before closing to wait for work that has begun; after `close()` nothing starts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from toolyard.core.closeable import Closeable

_DELAY_SECONDS = 2.0


class Debouncer(Closeable):
    """Collects requests and runs `work` once, after a short delay."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
        """`work` decides for itself whether there is anything to do."""
        self._loop = loop
        self._work = work
        self._run_lock = threading.Lock()
        self._is_scheduled = self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Requests a run after the delay. Call it on the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(_DELAY_SECONDS, self._start)

    def run_now(self) -> None:
        """Runs the work immediately and waits for it. Call it from any thread except the loop's own."""
        self._is_scheduled = False
        with self._run_lock:
            if not self._is_closed:
                self._work()

    def close(self) -> None:
        """Prevents further runs and waits for the one in progress."""
        self._is_closed = True
        with self._run_lock:
            pass

    def _start(self) -> None:
        if self._is_closed:
            return
        self._task = self._loop.create_task(
            asyncio.to_thread(self.run_now)
        )  # the loop keeps only a weak reference to its tasks
