"""The frames of one run, between the thread that reads those of all runs and the one that waits for this run.

A mailbox holds a bounded number of bytes. When it is full the reader waits a while, which in the end makes the run
wait; should nobody take anything for that long, or the run have printed more than it may, it is given up. Whoever
waits finds SPILLED then, and of what comes after only its end. The one that waits owns the mailbox and closes it.
"""

from __future__ import annotations

import queue
import threading
from typing import Final

from toolyard.core.closeable import Closing
from toolyard.core.limits import MIB
from toolyard_runtime import protocol

Frame = tuple[int, bytes]

LOST: Final = -1
SPILLED: Final = -2

_MOST_HELD: Final = 8 * MIB
_FRAME_BYTES: Final = 128  # what one takes in memory beside its body
_PATIENCE_SECONDS: Final = 2.0
_SLACK: Final = 1 * MIB
_ENDINGS: Final = frozenset({protocol.EXIT, LOST})
_PRINTED: Final = frozenset({protocol.OUT, protocol.ERR})


class Mailbox(Closing):
    def __init__(self, most_printed: int) -> None:
        """The warden ends a run that prints more than `most_printed`; nobody has to believe that it does."""
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._left = most_printed + _SLACK
        self._held = 0
        self._given_up = False
        self._room = threading.Condition(threading.Lock())

    def put(self, frame: Frame) -> None:
        """From the reader's thread alone."""
        kind, body = frame
        if kind in _ENDINGS:
            self._frames.put(frame)
            return
        size = len(body) + _FRAME_BYTES
        with self._room:
            if self._given_up:
                return
            if kind in _PRINTED:
                self._left -= len(body)
            has_room = self._room.wait_for(lambda: self._takes(size), _PATIENCE_SECONDS)
            if self._given_up:  # closed meanwhile
                return
            self._given_up = not has_room or self._left < 0
            self._held += size
        self._frames.put((SPILLED, b"") if self._given_up else frame)

    def take(self, seconds: float) -> Frame:
        """The next one. Raises queue.Empty when there is none for so long."""
        frame = self._frames.get(timeout=seconds)
        with self._room:
            self._held -= len(frame[1]) + _FRAME_BYTES
            self._room.notify()
        return frame

    def close(self) -> None:
        with self._room:
            self._given_up = True
            self._room.notify()

    def _takes(self, size: int) -> bool:
        return self._given_up or self._held <= 0 or self._held + size <= _MOST_HELD
