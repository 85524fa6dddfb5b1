"""The output of stdio: writes complete lines in order, and tracks pending answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable

import anyio

_DRAIN_SECONDS = 10.0
_MAX_UNSENT_BYTES = 32 << 20  # unread bytes after which we take no more messages


class LineWriter:
    """Writes one message per line. While the pipe is full it blocks only its sender.

    If a sender is cancelled in the middle of a line, the next one writes the rest: lines are never torn.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = asyncio.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self.on_broken: Callable[[], None] | None = None
        """Called when the client has closed its end."""
        self._pending: set[int | str] = set()
        self._all_answered = asyncio.Event()
        os.set_blocking(fd, False)

    def mark_pending(self, request: int | str) -> None:
        """Records a request whose answer is pending."""
        self._pending.add(request)
        self._all_answered.clear()

    def mark_answered(self, request: object) -> None:
        """Records that a request is answered."""
        if isinstance(request, int | str):
            self._pending.discard(request)
        if not self._pending:
            self._all_answered.set()

    def clear_pending(self) -> None:
        """Forgets all pending answers."""
        self._pending.clear()
        self._all_answered.set()

    async def wait_for_answers(self) -> None:
        """Waits until all answers are sent, for a limited time."""
        if self._pending:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_answered.wait(), _DRAIN_SECONDS)

    async def send_line(self, line: bytes) -> None:
        """Writes a line, waiting for the client if necessary."""
        if not self.send_now(line):
            await self.flush()

    def send_now(self, line: bytes) -> bool:
        """Queues a line and writes what the pipe accepts. False if `flush` must write the rest."""
        data = line + b"\n"
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)
        if not self._lock.locked():
            with contextlib.suppress(OSError):  # a full or broken pipe: `flush` handles it
                self._write_first()
        return not self._unsent

    @property
    def is_backpressured(self) -> bool:
        """Whether the client has so much unread output that it should get no more for now."""
        return self._unsent_bytes > _MAX_UNSENT_BYTES

    async def flush(self) -> None:
        """Writes all queued lines. Raises BrokenResourceError."""
        async with self._lock:
            while self._unsent:
                try:
                    self._write_first()
                except BlockingIOError:
                    await _wait_writable(self._fd)
                except OSError as error:
                    if self.on_broken is not None:
                        self.on_broken()
                    raise anyio.BrokenResourceError from error

    def _write_first(self) -> None:
        first = self._unsent[0]
        written = os.write(self._fd, first)
        self._unsent_bytes -= written
        if written < len(first):
            self._unsent[0] = first[written:]
        else:
            self._unsent.popleft()


async def _wait_writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_writer(fd)
