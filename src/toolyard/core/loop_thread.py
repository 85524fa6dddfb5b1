"""An asyncio loop in its own thread, for programs that are not asynchronous themselves.

`LoopThread` owns the thread and the loop. The thread is a daemon: a program that forgets `close()` still ends.
`close()` cancels running work, waits for its clean-up, and ends the thread; later submissions are refused.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import selectors
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault

T = TypeVar("T")

_SHUTDOWN_SECONDS = 15.0
"""How long `close()` waits for cancelled work to clean up; longer than stopping any server takes."""


_BUSY_POLL_SECONDS = 0.0003


class BusyPollSelector(selectors.DefaultSelector):
    """Polls for a moment before it sleeps, if the previous poll found events.

    A call is a chain of short steps in several processes, each waiting for the one before. Waking a sleeping
    processor takes as long as such a step. The polling yields to other runnable work.
    """

    def __init__(self) -> None:
        super().__init__()
        self._was_busy = False
        self._may_busy_poll = (
            len(os.sched_getaffinity(0)) > 1
        )  # on one CPU, polling would only delay the other process

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._busy_poll(timeout) if self._was_busy and self._may_busy_poll else []
        if not ready:
            ready = super().select(timeout)
        self._was_busy = bool(ready)
        return ready

    def _busy_poll(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        most = _BUSY_POLL_SECONDS if timeout is None else min(timeout, _BUSY_POLL_SECONDS)
        last = time.perf_counter() + most
        while time.perf_counter() < last:
            ready = super().select(0)
            if ready:
                return ready
            os.sched_yield()
        return []


class LoopThread(Closeable):
    """Runs coroutines for other threads."""

    def __init__(self, name: str = "toolyard-loop") -> None:
        self.loop = asyncio.SelectorEventLoop(BusyPollSelector())
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop's own thread, where `run` would deadlock."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts `work` without waiting. Cancelling the returned future cancels the work."""
        with self._lock:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise SystemFault("The connections to the servers are closed.", hint="Open the workspace again.")

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs `work` and returns its result. A timeout or Ctrl-C cancels it."""
        if self.is_current:
            work.close()
            raise RuntimeError("run() on the loop's own thread would wait for itself; await instead")
        future = self.submit(work)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancels running work, waits for its clean-up and ends the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join(_SHUTDOWN_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left, timeout=_SHUTDOWN_SECONDS))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            self.loop.close()
