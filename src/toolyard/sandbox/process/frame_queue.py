"""The frames of one run, between the thread that reads those of all runs and the one that waits for this run.

A mailbox holds a bounded number of bytes. When it is full the reader waits a while, which in the end makes the run
wait; should nobody take anything for that long, or the run have printed more than it may, it is given up. Whoever
waits finds SPILLED then, and of what comes after only its end. The one that waits owns the mailbox and closes it.
"""

from __future__ import annotations

import queue
import threading
from typing import Final

from toolyard.core.closeable import Closeable
from toolyard.core.limits import MIB
from toolyard_runtime import protocol

Frame = tuple[int, bytes]

LOST: Final = -1
OVERFLOWED: Final = -2

_MAX_QUEUED_BYTES: Final = 8 * MIB
_FRAME_OVERHEAD_BYTES: Final = 128  # what one takes in memory beside its body
_FULL_WAIT_SECONDS: Final = 2.0
_OUTPUT_SLACK_BYTES: Final = 1 * MIB
_FINAL_FRAMES: Final = frozenset({protocol.EXIT, LOST})
_OUTPUT_FRAMES: Final = frozenset({protocol.OUT, protocol.ERR})


class FrameQueue(Closeable):
    def __init__(self, max_output_bytes: int) -> None:
        """The warden ends a run that prints more than `max_output_bytes`; nobody has to believe that it does."""
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._output_bytes_left = max_output_bytes + _OUTPUT_SLACK_BYTES
        self._queued_bytes = 0
        self._is_abandoned = False
        self._room_available = threading.Condition(threading.Lock())

    def put(self, frame: Frame) -> None:
        """From the reader's thread alone."""
        kind, body = frame
        if kind in _FINAL_FRAMES:
            self._frames.put(frame)
            return
        size = len(body) + _FRAME_OVERHEAD_BYTES
        with self._room_available:
            if self._is_abandoned:
                return
            if kind in _OUTPUT_FRAMES:
                self._output_bytes_left -= len(body)
            has_room = self._room_available.wait_for(lambda: self._has_room_for(size), _FULL_WAIT_SECONDS)
            if self._is_abandoned:  # closed meanwhile
                return
            self._is_abandoned = not has_room or self._output_bytes_left < 0
            self._queued_bytes += size
        self._frames.put((OVERFLOWED, b"") if self._is_abandoned else frame)

    def take(self, seconds: float) -> Frame:
        """The next one. Raises queue.Empty when there is none for so long."""
        frame = self._frames.get(timeout=seconds)
        with self._room_available:
            self._queued_bytes -= len(frame[1]) + _FRAME_OVERHEAD_BYTES
            self._room_available.notify()
        return frame

    def close(self) -> None:
        with self._room_available:
            self._is_abandoned = True
            self._room_available.notify()

    def _has_room_for(self, size: int) -> bool:
        return self._is_abandoned or self._queued_bytes <= 0 or self._queued_bytes + size <= _MAX_QUEUED_BYTES
