"""Work that a loop must not wait for: done in a thread of its own, a moment after it was asked for.

An `Aside` belongs to one loop and owns nothing but the task that is under way. What is asked for while it waits is
done with the rest. Whoever closes calls `now()`, which waits for what has begun; after `close()` nothing begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from toolyard.core.closeable import Closing

_AFTER_SECONDS = 2.0


class Aside(Closing):
    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
        """`work` looks for itself whether there is anything to do."""
        self._loop = loop
        self._work = work
        self._one_works = threading.Lock()
        self._is_due = self._is_closed = False
        self._under_way: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """On the loop."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(_AFTER_SECONDS, self._begin)

    def now(self) -> None:
        """From any thread but the loop's own."""
        self._is_due = False
        with self._one_works:
            if not self._is_closed:
                self._work()

    def close(self) -> None:
        self._is_closed = True
        with self._one_works:
            pass

    def _begin(self) -> None:
        if self._is_closed:
            return
        self._under_way = self._loop.create_task(asyncio.to_thread(self.now))  # the loop itself holds no task
