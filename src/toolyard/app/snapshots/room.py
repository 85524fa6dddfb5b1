"""What snapshots that nobody asked for leave free of the disk.

An agent that writes and deletes without end would else fill it with what it deleted, for as long as snapshots are
kept. Nothing is dropped to make room: that would be a way to have one's doings forgotten.
"""

from __future__ import annotations

import contextlib
import os
import time

from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB

_SHARE = 0.02
_MOST_RESERVED = 512 * MIB
_LOOK_SECONDS = 0.2


class Room:
    """Of the disk that the store lies on. For one thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._next = float("-inf")

    def check(self) -> None:
        """Raises SystemFault when the disk is nearly full. Quick: it looks a few times a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        with contextlib.suppress(OSError):  # whoever writes there says what is wrong
            disk = os.statvfs(self._folder)
            free, reserved = (
                disk.f_bavail * disk.f_frsize,
                min(disk.f_blocks * disk.f_frsize * _SHARE, _MOST_RESERVED),
            )
            if free < reserved:
                raise SystemFault(
                    f"The disk of {self._folder} is nearly full: {free:,} bytes are left.",
                    hint="Free some space, or let old snapshots go: toolyard snapshot gc --keep 20",
                )
