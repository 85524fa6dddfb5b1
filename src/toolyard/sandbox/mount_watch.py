"""One thread for each box that looks, while runs are under way, whether what it covers is still covered.

`MountWatch` owns the thread, which is started when the first run is and ends with `close()`, or when it has told that
a cover is gone. It never takes more than a small part of a processor, however many covers there are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator

from toolyard.core.closeable import Closeable

_CHECK_SECONDS = 0.05
_REST_FACTOR = 15  # it rests this many times as long as a look took
_END_SECONDS = 5.0


class MountWatch(Closeable):
    def __init__(self, is_intact: Callable[[], bool], on_loss: Callable[[], None]) -> None:
        self._is_intact, self._on_loss = is_intact, on_loss
        self._runs = 0
        self._lock = threading.Lock()
        self._run_active = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def while_running(self) -> Generator[None]:
        """While a run is under way."""
        with self._lock:
            self._runs += 1
            self._run_active.set()
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
            self._run_active.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    def _watch(self) -> None:
        rest = _CHECK_SECONDS
        while not self._closed.wait(rest):
            began = time.monotonic()
            if not self._is_intact():
                self._on_loss()
                return
            rest = max(_CHECK_SECONDS, _REST_FACTOR * (time.monotonic() - began))
            with self._lock:
                if not self._runs and not self._closed.is_set():
                    self._run_active.clear()
            self._run_active.wait()
