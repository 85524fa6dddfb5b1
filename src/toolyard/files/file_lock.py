"""A lock on an open file or folder, which the kernel releases when its holder dies, however that happens.

The lock is polled, so that a holder that never releases it causes a clear error and not a hang.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable

from toolyard.core.errors import ToolyardError

_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.02


def lock(
    fd: int, deadline: float, timeout_error: Callable[[], ToolyardError], before_waiting: Callable[[], None]
) -> None:
    """Locks an open file until it is closed, or raises what `timeout_error` returns once `deadline` is past.

    `before_waiting` is called each time the lock is held by another, and may raise.
    """
    wait = _FIRST_WAIT
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise timeout_error() from None
            before_waiting()
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
        else:
            return
