"""The lock for one writer at a time.

The lock belongs to an open file, so it excludes threads of the same process as well as other processes, and the
kernel releases it when its holder dies.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator

from toolyard.core.errors import ToolError
from toolyard.files.file_lock import lock as lock_until


def no_check() -> None:
    """Default of `check` parameters: never cancels."""


@contextlib.contextmanager
def locked_file(path: str, seconds: float, description: str, check: Callable[[], None] = no_check) -> Generator[None]:
    """Holds the lock on the file at `path`, creating it if it is missing. `check` may raise while waiting."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock(fd, seconds, description, check)
        yield
    finally:
        os.close(fd)


def lock(fd: int, seconds: float, description: str, check: Callable[[], None]) -> None:
    """Locks an open file or folder until it is closed. All of Toolyard's writers lock folders this way."""

    def timeout_error() -> ToolError:
        message = f"Another program has kept {description} locked for {seconds:g} seconds."
        return ToolError(message, hint="Wait until it is done, then try again.", retryable=True)

    lock_until(fd, time.monotonic() + seconds, timeout_error, check)
