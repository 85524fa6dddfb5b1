"""The writing half of stdio: lines that reach the client whole and in order, and the answers that are still owed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable

import anyio

_DRAIN_SECONDS = 10.0
_MAX_UNSENT_BYTES = 32 << 20  # bytes the client has not read before we take no more messages


class LineWriter:
    """Writes one message a line. Blocks its sender, and only it, while the pipe is full.

    A sender that is cancelled in the middle of its line leaves the rest to the next one: a line is never torn.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = asyncio.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self.on_broken: Callable[[], None] | None = None
        """Called when nobody reads what we write any more."""
        self._pending: set[int | str] = set()
        self._all_answered = asyncio.Event()
        os.set_blocking(fd, False)

    def mark_pending(self, request: int | str) -> None:
        """A request came in: an answer is owed."""
        self._pending.add(request)
        self._all_answered.clear()

    def mark_answered(self, request: object) -> None:
        if isinstance(request, int | str):
            self._pending.discard(request)
        if not self._pending:
            self._all_answered.set()

    def clear_pending(self) -> None:
        """Nobody waits for what is still owed."""
        self._pending.clear()
        self._all_answered.set()

    async def wait_for_answers(self) -> None:
        """Wait until every answer is out, for a bounded time."""
        if self._pending:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_answered.wait(), _DRAIN_SECONDS)

    async def send_line(self, line: bytes) -> None:
        if not self.send_now(line):
            await self.flush()

    def send_now(self, line: bytes) -> bool:
        """Take a line and pass on what the pipe takes at once, mostly all. False: `flush` has to do the rest."""
        data = line + b"\n"
        self._unsent.append(memoryview(data))
        self._unsent_bytes += len(data)
        if not self._lock.locked():
            with contextlib.suppress(OSError):  # a pipe that is full or broken: `flush` will see it
                self._write_first()
        return not self._unsent

    @property
    def is_backpressured(self) -> bool:
        """Whether the client leaves so much unread that it should get no further answers for now."""
        return self._unsent_bytes > _MAX_UNSENT_BYTES

    async def flush(self) -> None:
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
