"""One writer at a time: a lock that the kernel takes back when its holder dies, however that happens.

It is tried, not awaited, so that a holder who never lets go costs its callers a clear error and no hang. The lock
belongs to an open file, so it keeps threads of one process apart as well as processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator

from toolyard.core.errors import ToolError

_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.05


def never_mind() -> None:
    """Waiting is fine."""


@contextlib.contextmanager
def locked_file(path: str, seconds: float, what: str, check: Callable[[], None] = never_mind) -> Generator[None]:
    """Hold the lock on the file at `path`, which is made when it is missing. `check` may raise while waiting."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock(fd, seconds, what, check)
        yield
    finally:
        os.close(fd)


def lock(fd: int, seconds: float, what: str, check: Callable[[], None]) -> None:
    """Lock an open file or folder until it is closed. Folders are locked so by all of Toolyard's writers."""
    deadline = time.monotonic() + seconds
    wait = _FIRST_WAIT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ToolError(
                    f"Another program has kept {what} locked for {seconds:g} seconds.",
                    hint="Wait until it is done, then try again.",
                    retryable=True,
                ) from None
            check()
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        else:
            return
