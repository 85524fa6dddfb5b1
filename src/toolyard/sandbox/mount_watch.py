"""One thread for each box that looks, while runs are under way, whether what it covers is still covered.

`CoverWatch` owns the thread, which is started when the first run is and ends with `close()`, or when it has told that
a cover is gone. It never takes more than a small part of a processor, however many covers there are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator

from toolyard.core.closeable import Closing

_LOOK_SECONDS = 0.05
_TIMES_RESTING = 15  # it rests this many times as long as a look took
_END_SECONDS = 5.0


class CoverWatch(Closing):
    def __init__(self, is_whole: Callable[[], bool], on_loss: Callable[[], None]) -> None:
        self._is_whole, self._on_loss = is_whole, on_loss
        self._runs = 0
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def awake(self) -> Generator[None]:
        """While a run is under way."""
        with self._lock:
            self._runs += 1
            self._busy.set()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._watch, name="toolyard-covers", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._busy.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _watch(self) -> None:
        rest = _LOOK_SECONDS
        while not self._closed.wait(rest):
            began = time.monotonic()
            if not self._is_whole():
                self._on_loss()
                return
            rest = max(_LOOK_SECONDS, _TIMES_RESTING * (time.monotonic() - began))
            with self._lock:
                if not self._runs and not self._closed.is_set():
                    self._busy.clear()
            self._busy.wait()
