"""A lock on an open file or folder, which the kernel takes back when its holder dies, however that happens.

It is tried, not awaited, so that a holder who never lets go costs its callers a clear error and no hang.
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
    """Lock it until it is closed, or raise what `timeout_error` says once the clock is past `deadline`.

    `before_waiting` is called each time that somebody else has it, and may raise.
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
