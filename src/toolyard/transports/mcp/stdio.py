"""The stdio transport: JSON-RPC lines on stdin and stdout, without threads.

The SDK's transport switches threads a dozen times per message; this one uses the event loop and serves several times
as many calls. It also answers what the SDK silently drops: a line that is not JSON-RPC or is too long gets an error
response, so no client waits forever. The LineReader offers each line to its handlers; the LineWriter sends complete
lines in order and tracks which answers are pending.

While serving, descriptor 0 is the null device and descriptor 1 is stderr, so nothing that prints can corrupt the
stream. At end of file the requests already sent are still answered, for a limited time; `stop()` ends reading
immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, cast

import anyio

from toolyard.core.errors import SystemFault
from toolyard.transports.json_encoding import INVALID_REQUEST, PARSE_ERROR, encode_json, error_json

_CHUNK = 1 << 18
_MAX_LINE = 64 << 20
_HIGH_WATER = 256  # waiting messages after which reading pauses
_TURN_SECONDS = 0.05  # for calls that run inline, before signals and other tasks get a turn
_DRAIN_SECONDS = 10.0
_MAX_UNSENT_BYTES = 32 << 20  # unread bytes after which we take no more messages
_SHOWN_ID_CHARS = 200
_SHOWN_KEY_CHARS = 100
_SEND_MESSAGES = "Send one JSON-RPC 2.0 message a line, as UTF-8."


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


class LineHandler(Protocol):
    """Handles some lines itself."""

    def take(self, line: bytes) -> bool: ...


class LineReader:
    """Reads lines and offers each to the handlers, in order; `wait_for_unhandled` returns for the others."""

    def __init__(self, fd: int, writer: LineWriter, handlers: Sequence[LineHandler]) -> None:
        self._fd = fd
        self._writer = writer
        self._handlers = handlers
        self._waiting: deque[bytes] = deque()
        self._partial = bytearray()
        self._skipping = False
        self._too_long = 0
        self._ended = False
        self.stopped = asyncio.Event()
        """Set when nothing waits for answers any more."""
        self._turn_ends = 0.0
        self._wake: asyncio.Future[None] | None = None
        self._reading = False
        self._pump: asyncio.Task[None] | None = None
        writer.on_broken = self.stop  # a client that closed its input has left, whatever it still sends

    async def wait_for_unhandled(self) -> bool:
        """Waits for an unhandled line; False at the end, when all answers are sent."""
        while True:
            while self._too_long:
                self._too_long -= 1
                await self._send_error(None, INVALID_REQUEST, f"a message is longer than {_MAX_LINE} bytes")
            if self._waiting and self._writer.is_backpressured and not self._ended:
                await self._wait_for_room()
            elif self._waiting:
                line = self._waiting.popleft()
                if not self._take(line):
                    if not self.stopped.is_set():
                        self._waiting.appendleft(line)
                        return True
                else:
                    await asyncio.sleep(0)  # the call may have run inline; let other tasks run first
            elif self._ended:
                if not self.stopped.is_set():
                    await self._writer.wait_for_answers()
                return False
            else:
                await self._wait_for_input()

    def take_line(self) -> bytes:
        """Returns the line that `wait_for_unhandled` found."""
        return self._waiting.popleft()

    def close(self) -> None:
        """Stops reading."""
        self._stop_reading()
        self._ended = True

    def stop(self) -> None:
        """Ends the stream now: running calls are cancelled, and waiting lines are dropped."""
        self._ended = True
        self.stopped.set()
        self._waiting.clear()
        self._too_long = 0
        self._writer.clear_pending()
        self._stop_reading()
        self._wake_up()

    async def refuse(self, line: bytes) -> None:
        """Answers an invalid line with an error, under its id if it has one."""
        try:
            request_id = _id_in(line)
        except (ValueError, RecursionError):
            await self._send_error(None, PARSE_ERROR, "the line is not JSON")
            return
        await self._send_error(
            _shown_id(request_id),
            INVALID_REQUEST,
            "the message is not valid JSON-RPC, or its text is not valid Unicode",
        )

    async def refuse_repeated_key(self, line: bytes, key: str) -> None:
        """Refuses a message with a duplicate key, under its id if that is unique."""
        request_id = None
        with contextlib.suppress(ValueError):  # a number too long to convert
            request_id = _id_in(line)
        message = f"the message has the key {key[:_SHOWN_KEY_CHARS]!r} twice in one object"
        await self._send_error(_shown_id(request_id), INVALID_REQUEST, message, hint="Send each key once.")

    async def reply_error(self, line: bytes, fault: SystemFault) -> None:
        """Answers a request with a fault of the server."""
        with contextlib.suppress(ValueError, RecursionError):
            request_id = _id_in(line)
            if request_id is not None and b'"method"' in line:
                response = {"jsonrpc": "2.0", "id": request_id, "error": error_json(fault)}
                await self._writer.send_line(encode_json(response))
            return
        await self.refuse(line)

    async def _send_error(
        self, request: int | str | None, code: int, message: str, *, hint: str = _SEND_MESSAGES
    ) -> None:
        error = {"code": code, "message": f"Refused: {message}. {hint}"}
        await self._writer.send_line(json.dumps({"jsonrpc": "2.0", "id": request, "error": error}).encode())

    async def _wait_for_input(self) -> None:
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        self._start_reading(loop)
        try:
            await self._wake
        finally:
            self._wake = None

    async def _wait_for_room(self) -> None:
        """Waits until the client has read its output, or for any other event."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        # The senders of those lines may have been cancelled: flush them here.
        flushing = loop.create_task(self._writer.flush())
        flushing.add_done_callback(self._on_flushed)
        try:
            await self._wake
        finally:
            self._wake = None
            flushing.cancel()

    def _on_flushed(self, flushing: asyncio.Task[None]) -> None:
        if not flushing.cancelled():
            flushing.exception()  # a broken pipe has stopped the reader already
            self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _start_reading(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._ended:
            self._wake_up()
        if self._reading or self._ended:
            return
        self._reading = True
        try:
            loop.add_reader(self._fd, self._on_readable)
        except PermissionError:  # epoll refuses regular files and the null device, which are always ready
            self._pump = loop.create_task(self._pump_file())

    def _stop_reading(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None
        elif self._reading:
            asyncio.get_running_loop().remove_reader(self._fd)
        self._reading = False

    async def _pump_file(self) -> None:
        while self._reading:
            self._on_readable()
            await asyncio.sleep(0)

    def _on_readable(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._ended = True
            if self._partial and not self._skipping:
                self._waiting.append(bytes(self._partial))
                self._partial.clear()
            self._stop_reading()
        else:
            self._turn_ends = time.monotonic() + _TURN_SECONDS
            self._split(chunk)
            if len(self._waiting) > _HIGH_WATER:
                self._stop_reading()
        if self._waiting or self._ended or self._too_long:
            self._wake_up()

    def _split(self, chunk: bytes) -> None:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            if self._skipping:
                self._skipping = False
            elif self._partial:
                self._partial += line
                self._handle_line(bytes(self._partial))
            else:
                self._handle_line(line)
            self._partial.clear()
        if not self._skipping:
            self._partial += rest
            if len(self._partial) > _MAX_LINE:
                self._partial.clear()
                self._skipping = True
                self._too_long += 1

    def _handle_line(self, line: bytes) -> None:
        # In order: no line may overtake a waiting one.
        if self._waiting or self._writer.is_backpressured or self._turn_is_over or not self._take(line):
            self._waiting.append(line)

    def _take(self, line: bytes) -> bool:
        return any(handler.take(line) for handler in self._handlers)

    @property
    def _turn_is_over(self) -> bool:
        return time.monotonic() > self._turn_ends


async def _wait_writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_writer(fd)


def _id_in(line: bytes) -> object:
    raw = json.loads(line, object_pairs_hook=_only_id)
    return cast("dict[str, Any]", raw).get("id") if isinstance(raw, dict) else None


def _only_id(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Returns the `id` of an object that has exactly one."""
    ids = [value for key, value in pairs if key == "id"]
    return {"id": ids[0]} if len(ids) == 1 else {}


def _shown_id(request_id: object) -> int | str | None:
    if isinstance(request_id, str):
        return request_id[:_SHOWN_ID_CHARS]
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


@contextlib.contextmanager
def claim_stdio() -> Generator[tuple[int, int]]:
    """Moves the protocol's descriptors away from 0 and 1, so that nothing else can use them."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    blocking = os.get_blocking(wire_out)  # a property of the pipe or terminal, which others share
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(null, 0)
        os.dup2(2, 1)
        yield wire_in, wire_out
    finally:
        os.set_blocking(wire_out, blocking)
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        for fd in (wire_in, wire_out, null):
            os.close(fd)
