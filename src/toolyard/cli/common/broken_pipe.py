"""Detects a closed output pipe, as in `toolyard … | head`."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO


def silence_broken_pipe(stream: TextIO | None = None) -> bool:
    """Whether the reader of our output has gone. If so, redirects further output to /dev/null."""
    try:
        fd = (stream or sys.stdout).fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(fd, 0)
    if not any(events & select.POLLERR for _, events in poll.poll(0)):
        return False
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, fd)
    os.close(null)
    return True
