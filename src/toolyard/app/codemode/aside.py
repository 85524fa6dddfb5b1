"""Work that a loop must not wait for: done in a thread of its own, a moment after it was asked for.

An `Aside` belongs to one loop and owns nothing but the task that is under way. What is asked for while it waits is
done with the rest. Whoever closes calls `now()`, which waits for what has begun.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

_AFTER_SECONDS = 2.0


class Aside:
    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
        """`work` looks for itself whether there is anything to do."""
        self._loop = loop
        self._work = work
        self._one_works = threading.Lock()
        self._is_due = False
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
            self._work()

    def _begin(self) -> None:
        self._under_way = self._loop.create_task(asyncio.to_thread(self.now))  # the loop itself holds no task
