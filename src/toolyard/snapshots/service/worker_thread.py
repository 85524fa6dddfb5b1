"""One thread that runs tasks one after the other, and the pending snapshot after a quiet moment.

It starts with the first task. `close()` lets it finish its current task and the pending snapshot, then it ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from toolyard.core.errors import SystemFault

QUIET_SECONDS = 1.0
"""A pending snapshot is taken once nothing has changed for this long."""
LATEST_SECONDS = 10.0
"""A pending snapshot is taken at the latest after this time."""
_REST = 10.0
"""The thread rests ten times as long as it worked, so that it never uses more than a tenth of a processor."""

T = TypeVar("T")
Task = Callable[[], None]


class SnapshotCancelled(Exception):  # noqa: N818 - not an error: the caller no longer waits
    """The snapshot was cancelled: its caller no longer waits, or the workspace is closing."""


@dataclass(slots=True)
class PendingSnapshot:
    """The tools that changed something since the last snapshot, and when the next one is due."""

    tools: set[str]
    due_by: float
    quiet_at: float

    @property
    def due_at(self) -> float:
        return min(self.due_by, self.quiet_at)


class SnapshotThread:
    """The thread that takes snapshots."""

    def __init__(self, take: Callable[[PendingSnapshot], float]) -> None:
        """`take` takes the pending snapshot and returns the seconds of work it cost."""
        self._take = take
        self._ready = threading.Condition()
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._pending: PendingSnapshot | None = None
        self._rest_until = float("-inf")
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Runs `work` in the thread; the future has its result."""
        future: Future[T] = Future()
        with self._ready:
            if self._is_closed:
                future.set_exception(SystemFault("The workspace is closed.", hint="Open it again."))
                return future
            self._tasks.append((future, work))
            self._wake()
        return future

    def mark_pending(self, tool: str) -> None:
        """Notes that something may have changed. Cheap: it is called for every write."""
        now = time.monotonic()
        with self._ready:
            if self._pending is not None:
                self._pending.tools.add(tool)
                self._pending.quiet_at = now + QUIET_SECONDS  # the thread reads it again when it wakes up
            elif not self._is_closed:
                self._pending = PendingSnapshot({tool}, now + LATEST_SECONDS, now + QUIET_SECONDS)
                self._wake()

    def take_pending(self) -> PendingSnapshot | None:
        """Removes and returns the pending snapshot, if there is one."""
        with self._ready:
            pending, self._pending = self._pending, None
            return pending

    def put_back(self, pending: PendingSnapshot, not_before: float) -> None:
        """Makes a pending snapshot due again, not before a given time."""
        with self._ready:
            tools = pending.tools if self._pending is None else pending.tools | self._pending.tools
            self._pending = PendingSnapshot(tools, not_before, not_before)

    def close(self, seconds: float) -> bool:
        """Runs the pending snapshot and ends. Returns False if the thread is still busy after `seconds`."""
        with self._ready:
            self._is_closed = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolyard-snapshots", daemon=True)
            self._thread.start()
        self._ready.notify()

    def _run(self) -> None:
        while (task := self._next_task()) is not None:
            task()

    def _next_task(self) -> Task | None:
        """Waits for the next task; None at the end. Submitted tasks go before the pending snapshot."""
        with self._ready:
            while True:
                if self._tasks:
                    future, work = self._tasks.popleft()
                    return lambda: _run_task(future, work)
                now, pending = time.monotonic(), self._pending
                if pending is not None and (self._is_closed or max(pending.due_at, self._rest_until) <= now):
                    self._pending = None
                    return lambda: self._run_pending(pending)
                if self._is_closed:
                    return None
                self._ready.wait(None if pending is None else max(pending.due_at, self._rest_until) - now)

    def _run_pending(self, pending: PendingSnapshot) -> None:
        worked = self._take(pending)
        self._rest_until = time.monotonic() + worked * _REST


def _run_task(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - passed to the caller that waits for the future
        future.set_exception(error)
    else:
        future.set_result(result)
