"""Work that a loop must not wait for: done in a thread of its own, a moment after it was asked for.

An `Debouncer` belongs to one loop and owns nothing but the task that is under way. What is asked for while it waits is
done with the rest. Whoever closes calls `run_now()`, which waits for what has begun; after `close()` nothing begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from toolyard.core.closeable import Closeable

_DELAY_SECONDS = 2.0


class Debouncer(Closeable):
    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
        """`work` looks for itself whether there is anything to do."""
        self._loop = loop
        self._work = work
        self._run_lock = threading.Lock()
        self._is_scheduled = self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """On the loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(_DELAY_SECONDS, self._start)

    def run_now(self) -> None:
        """From any thread but the loop's own."""
        self._is_scheduled = False
        with self._run_lock:
            if not self._is_closed:
                self._work()

    def close(self) -> None:
        self._is_closed = True
        with self._run_lock:
            pass

    def _start(self) -> None:
        if self._is_closed:
            return
        self._task = self._loop.create_task(asyncio.to_thread(self.run_now))  # the loop itself holds no task
