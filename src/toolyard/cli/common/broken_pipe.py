"""Output that nobody reads any more: `toolyard … | head`."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def silence_broken_pipe(stream: TextIO | None = None) -> bool:
    """Whether nobody reads our output any more. If so, what is still to come goes nowhere."""
    try:
        fd = (stream or sys.stdout).fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(fd, 0)
    if not any(events & select.POLLERR for _, events in poll.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, fd)
    os.close(nowhere)
    return True
