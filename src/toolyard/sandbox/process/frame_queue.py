"""The frames of one run, between the thread that reads the frames of all runs and the thread that waits for this run.

A queue holds a bounded number of bytes. When it is full the reader waits for a while, which eventually makes the run
wait. If nothing is taken for that long, or the run has printed more than it may, the run is abandoned: the waiting
thread then gets OVERFLOWED, and after that only the run's end. The waiting thread owns the queue and closes it.
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
_FRAME_OVERHEAD_BYTES: Final = 128  # memory that a frame takes besides its body
_FULL_WAIT_SECONDS: Final = 2.0
_OUTPUT_SLACK_BYTES: Final = 1 * MIB
_FINAL_FRAMES: Final = frozenset({protocol.EXIT, LOST})
_OUTPUT_FRAMES: Final = frozenset({protocol.OUT, protocol.ERR})


class FrameQueue(Closeable):
    """A bounded queue of frames for one run."""

    def __init__(self, max_output_bytes: int) -> None:
        """The supervisor ends a run that prints more than `max_output_bytes`; the limit is enforced here as well."""
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._output_bytes_left = max_output_bytes + _OUTPUT_SLACK_BYTES
        self._queued_bytes = 0
        self._is_abandoned = False
        self._room_available = threading.Condition(threading.Lock())

    def put(self, frame: Frame) -> None:
        """Adds a frame. Only the reader's thread may call it."""
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
        """Returns the next frame. Raises queue.Empty after `seconds`."""
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
