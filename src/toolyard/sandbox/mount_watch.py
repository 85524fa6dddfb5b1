"""Checks, in one thread per sandbox while runs are active, that the mounts over protected files are intact.

`MountWatch` owns the thread. It starts with the first run and ends with `close()`, or after it reported a lost mount.
It uses only a small share of a processor, however many mounts there are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator

from toolyard.core.closeable import Closeable

_CHECK_SECONDS = 0.05
_REST_FACTOR = 15  # it rests this many times as long as a check took
_END_SECONDS = 5.0


class MountWatch(Closeable):
    """Calls `on_loss` once if `is_intact` returns False while a run is active."""

    def __init__(self, is_intact: Callable[[], bool], on_loss: Callable[[], None]) -> None:
        self._is_intact, self._on_loss = is_intact, on_loss
        self._runs = 0
        self._lock = threading.Lock()
        self._run_active = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def while_running(self) -> Generator[None]:
        """Keeps the checks active while the block runs."""
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
