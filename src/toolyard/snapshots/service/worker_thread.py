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


class Stopped(Exception):  # noqa: N818 - not an error: whoever waited has left
    """There is no time left for this."""


@dataclass(slots=True)
class Quiet:
    """What changed since the last picture, and when the next is due."""

    tools: set[str]
    latest: float
    quiet: float

    @property
    def due(self) -> float:
        return min(self.latest, self.quiet)


class TakingThread:
    def __init__(self, take: Callable[[Quiet], float]) -> None:
        """`take` does what is pending, and says how many seconds of work it was."""
        self._take = take
        self._ready = threading.Condition()
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._quiet: Quiet | None = None
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

    def pending(self, tool: str) -> None:
        """Something may have changed. Cheap: who writes file after file calls it for each."""
        now = time.monotonic()
        with self._ready:
            if self._quiet is not None:
                self._quiet.tools.add(tool)
                self._quiet.quiet = now + QUIET_SECONDS  # the thread looks again when it wakes up
            elif not self._is_closed:
                self._quiet = Quiet({tool}, now + LATEST_SECONDS, now + QUIET_SECONDS)
                self._wake()

    def take_pending(self) -> Quiet | None:
        with self._ready:
            quiet, self._quiet = self._quiet, None
            return quiet

    def put_back(self, quiet: Quiet, not_before: float) -> None:
        with self._ready:
            tools = quiet.tools if self._quiet is None else quiet.tools | self._quiet.tools
            self._quiet = Quiet(tools, not_before, not_before)

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
            self._thread = threading.Thread(target=self._main, name="toolyard-snapshots", daemon=True)
            self._thread.start()
        self._ready.notify()

    def _main(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Task | None:
        """What is to be done now; None at the end. Who waits for something goes before what is pending."""
        with self._ready:
            while True:
                if self._tasks:
                    made, work = self._tasks.popleft()
                    return lambda: _done(made, work)
                now, quiet = time.monotonic(), self._quiet
                if quiet is not None and (self._is_closed or max(quiet.due, self._rest_until) <= now):
                    self._quiet = None
                    return lambda: self._picture(quiet)
                if self._is_closed:
                    return None
                self._ready.wait(None if quiet is None else max(quiet.due, self._rest_until) - now)

    def _picture(self, quiet: Quiet) -> None:
        worked = self._take(quiet)
        self._rest_until = time.monotonic() + worked * _REST


def _done(made: Future[T], work: Callable[[], T]) -> None:
    if not made.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
        made.set_exception(error)
    else:
        made.set_result(result)
