"""One writer at a time. The lock belongs to an open file, so it keeps threads of one process apart as well as
processes, and a holder who dies lets go.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator

from toolyard.core.errors import ToolError
from toolyard.files.file_lock import lock as lock_until


def no_check() -> None:
    """Waiting is fine."""


@contextlib.contextmanager
def locked_file(path: str, seconds: float, description: str, check: Callable[[], None] = no_check) -> Generator[None]:
    """Hold the lock on the file at `path`, which is made when it is missing. `check` may raise while waiting."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock(fd, seconds, description, check)
        yield
    finally:
        os.close(fd)


def lock(fd: int, seconds: float, description: str, check: Callable[[], None]) -> None:
    """Lock an open file or folder until it is closed. Folders are locked so by all of Toolyard's writers."""

    def timeout_error() -> ToolError:
        told = f"Another program has kept {description} locked for {seconds:g} seconds."
        return ToolError(told, hint="Wait until it is done, then try again.", retryable=True)

    lock_until(fd, time.monotonic() + seconds, timeout_error, check)
