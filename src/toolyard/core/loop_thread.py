"""An asyncio loop in a thread of its own, for programs that are not asynchronous themselves.

The `LoopThread` owns the thread and the loop. The thread is a daemon: a program that forgets `close()` still ends.
`close()` cancels what runs, lets it finish its clean-up, and ends the thread; what is handed in later is refused.
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
"""How long `close()` waits for cancelled work to clean up; longer than any server takes to be ended."""


_BUSY_POLL_SECONDS = 0.0003


class BusyPollSelector(selectors.DefaultSelector):
    """Looks a moment longer before it sleeps, once something has happened.

    A call is a few short steps of several processes, each of which waits for the one before. Being woken takes a
    processor that has gone to sleep as long as the step itself. Whoever else has work goes first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._was_busy = False
        self._may_busy_poll = len(os.sched_getaffinity(0)) > 1  # else there is nobody to wait for

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
    """Runs coroutines from any thread but its own."""

    def __init__(self, name: str = "toolyard-loop") -> None:
        self.loop = asyncio.SelectorEventLoop(BusyPollSelector())
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller stands on this loop's own thread, where `run` would wait for itself."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start `work` without waiting; cancelling what comes back cancels it."""
        with self._lock:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise SystemFault("The connections to the servers are closed.", hint="Open the workspace again.")

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run `work` and wait for what it returns. Giving up (time-out, Ctrl-C) cancels it."""
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
