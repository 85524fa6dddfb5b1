"""Non-blocking line I/O on pipes: the loop reports readiness, one system call moves the bytes.

Neither class owns its descriptor; the creator of the pipe closes it after `stop()`. A reader holds at most one line
of `MAX_LINE_BYTES`: of a longer one it reports the beginning and the end, and continues with the next. A writer
accepts everything, and `is_full` tells callers to await `wait_for_room()`.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

from toolyard.core.limits import KIB, MIB

MAX_LINE_BYTES = 64 * MIB
"""Maximum length of a server's message."""
ENDLESS_BYTES = 16 * MAX_LINE_BYTES
"""A message longer than this is not read to its end."""
_END_BYTES = 1 * KIB
"""Kept from the beginning and the end of a message that is too long: the id is in one of them."""
_READ_BYTES = 256 * KIB
_FULL_BYTES = 1 * MIB
"""Unread bytes after which callers have to wait."""


class PipeReader:
    """Splits the output of a server into lines."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_overflow: Callable[[bytes | None], None],
    ) -> None:
        """`on_overflow` gets the two ends of a line that is too long, or None for an endless one."""
        self._loop = loop
        self._descriptor = descriptor
        self._on_line = on_line
        self._on_end = on_end
        self._on_overflow = on_overflow
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._skipped = b""
        """The beginning of a line that is too long, while its rest is skipped."""
        self._reading = True
        self.received_bytes = 0
        """Bytes read so far."""
        loop.add_reader(descriptor, self._on_readable)

    def stop(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)

    def drain(self) -> None:
        """Reads what is in the pipe now: the last output of a server that has ended."""
        while self._reading and self._on_readable():
            pass

    def _on_readable(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.stop()
            self._on_end()
            return False
        self.received_bytes += len(data)
        if b"\n" in data:
            self._split(data)
        else:
            self._hold(data)
        return True

    def _split(self, data: bytes) -> None:
        first, *lines = data.split(b"\n")
        rest = lines.pop()
        self._end_line(first)
        for line in lines:
            if not self._reading:  # a previous line stopped the reader
                return
            self._on_line(line)
        if rest:
            self._hold(rest)

    def _end_line(self, last: bytes) -> None:
        line = b"".join((*self._pieces, last)) if self._pieces else last
        skipped, self._skipped = self._skipped, b""
        self._pieces.clear()
        self._held_bytes = 0
        if skipped:
            self._on_overflow(skipped + line[-_END_BYTES:])
        else:
            self._on_line(line)

    def _hold(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes > ENDLESS_BYTES:
            self._pieces.clear()
            self.stop()
            self._on_overflow(None)
        elif self._held_bytes > MAX_LINE_BYTES:
            self._skip()

    def _skip(self) -> None:
        """Drops a line that is too long, except its beginning and what may be its end."""
        if not self._skipped:
            self._skipped = b"".join(self._pieces[:2])[:_END_BYTES]
        self._pieces = [b"".join(self._pieces[-2:])[-_END_BYTES:]]


class PipeWriter:
    """Writes to a server without blocking the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._waiting: deque[bytes | memoryview] = deque()
        self._held_bytes = 0
        self._room_future: asyncio.Future[None] | None = None
        self._writing = True

    @property
    def is_full(self) -> bool:
        return self._held_bytes > _FULL_BYTES

    def write(self, data: bytes) -> None:
        """Writes what the pipe accepts now, and the rest later. Discards it if the reader is gone."""
        if not self._writing:
            return
        if not self._waiting:
            sent = self._send(data)
            if sent == len(data):
                return
            data = data[sent:]
            if not self._writing:
                return
            self._loop.add_writer(self._descriptor, self._on_writable)
        self._waiting.append(data)
        self._held_bytes += len(data)

    async def wait_for_room(self) -> None:
        """Waits until the writer is no longer full or the reader is gone."""
        while self._writing and self.is_full:
            if self._room_future is None:
                self._room_future = self._loop.create_future()
            await asyncio.shield(self._room_future)

    def stop(self) -> None:
        if not self._writing:
            return
        self._writing = False
        if self._waiting:
            self._loop.remove_writer(self._descriptor)
        self._waiting.clear()
        self._held_bytes = 0
        self._wake_waiters()

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:  # the reader is gone; the process exit reports it
            self.stop()
            return 0

    def _on_writable(self) -> None:
        data = self._waiting[0]
        sent = self._send(data)
        if not self._writing:
            return
        self._held_bytes -= sent
        if sent < len(data):
            # A view, not a copy: a long message is written in many small pieces.
            self._waiting[0] = memoryview(data)[sent:]
        else:
            self._waiting.popleft()
            if not self._waiting:
                self._loop.remove_writer(self._descriptor)
        if not self.is_full:
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self._room_future is not None:
            self._room_future.set_result(None)
            self._room_future = None
