"""One thread that does what it is handed, one thing after the other, and what is pending once it is quiet.

It is started with the first thing to do. `close()` lets it finish what it does and what is pending, then it ends.
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
"""So long nothing changed: then it is a good moment for a picture."""
LATEST_SECONDS = 10.0
"""So long a change waits for quiet at most."""
_REST = 10.0
"""After work of a second the thread rests ten, so that it never takes more than a tenth of a processor."""

T = TypeVar("T")
Task = Callable[[], None]


class SnapshotCancelled(Exception):  # noqa: N818 - not an error: whoever waited has left
    """There is no time left for this."""


@dataclass(slots=True)
class PendingSnapshot:
    """What changed since the last picture, and when the next is due."""

    tools: set[str]
    due_by: float
    quiet_at: float

    @property
    def due_at(self) -> float:
        return min(self.due_by, self.quiet_at)


class SnapshotThread:
    def __init__(self, take: Callable[[PendingSnapshot], float]) -> None:
        """`take` does what is pending, and says how many seconds of work it was."""
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
        made: Future[T] = Future()
        with self._ready:
            if self._is_closed:
                made.set_exception(SystemFault("The workspace is closed.", hint="Open it again."))
                return made
            self._tasks.append((made, work))
            self._wake()
        return made

    def mark_pending(self, tool: str) -> None:
        """Something may have changed. Cheap: who writes file after file calls it for each."""
        now = time.monotonic()
        with self._ready:
            if self._pending is not None:
                self._pending.tools.add(tool)
                self._pending.quiet_at = now + QUIET_SECONDS  # the thread looks again when it wakes up
            elif not self._is_closed:
                self._pending = PendingSnapshot({tool}, now + LATEST_SECONDS, now + QUIET_SECONDS)
                self._wake()

    def take_pending(self) -> PendingSnapshot | None:
        with self._ready:
            quiet, self._pending = self._pending, None
            return quiet

    def put_back(self, pending: PendingSnapshot, not_before: float) -> None:
        with self._ready:
            tools = pending.tools if self._pending is None else pending.tools | self._pending.tools
            self._pending = PendingSnapshot(tools, not_before, not_before)

    def close(self, seconds: float) -> bool:
        """Do what is pending and end. False when the thread is still busy after `seconds`."""
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
        """What is to be done now; None at the end. Who waits for something goes before what is pending."""
        with self._ready:
            while True:
                if self._tasks:
                    made, work = self._tasks.popleft()
                    return lambda: _run_task(made, work)
                now, quiet = time.monotonic(), self._pending
                if quiet is not None and (self._is_closed or max(quiet.due_at, self._rest_until) <= now):
                    self._pending = None
                    return lambda: self._run_pending(quiet)
                if self._is_closed:
                    return None
                self._ready.wait(None if quiet is None else max(quiet.due_at, self._rest_until) - now)

    def _run_pending(self, pending: PendingSnapshot) -> None:
        worked = self._take(pending)
        self._rest_until = time.monotonic() + worked * _REST


def _run_task(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
        future.set_exception(error)
    else:
        future.set_result(result)
