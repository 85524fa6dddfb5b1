"""Calls from event loops: one connection per loop, with many calls in flight.

A LoopConnection belongs to its loop and is used only on its thread. It is closed when the broker closes it, or when
its loop was closed and another loop makes a call. In a forked child its descriptor is closed and the loop's own list
of descriptors is left alone, because parent and child share that.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from toolyard_runtime.broker import (
    CHUNK,
    HEADER,
    Message,
    Progress,
    connect,
    connection_lost,
    decode_body,
    encode_frame,
    exception_from_error,
    frame_length,
    report_progress,
)
from toolyard_runtime.errors import BrokerLost

_MOST_CALLS = 128
"""Calls in flight on one connection. Fewer than the broker allows, so that a cancellation is always read."""

_BUSY_POLL_SECONDS = 0.0003
"""How long a single call polls for its answer before it sleeps: most arrive by then, and waking up takes longer."""

_PendingCall = tuple["asyncio.Future[Any]", Message, "Progress | None"]


class LoopConnection:
    """The connection of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._socket = connect()
        self._socket.settimeout(0)
        self._received = bytearray()
        self._buffer = memoryview(bytearray(CHUNK))  # reused, as in `broker.BlockingConnection`
        self._unsent = bytearray()
        self._pending: dict[int, _PendingCall] = {}
        self._last_id = 0
        self._free_slots = asyncio.Semaphore(_MOST_CALLS)
        self.is_open = True
        loop.add_reader(self._socket.fileno(), self._on_readable)

    async def call(self, message: Message, progress: Progress | None) -> Any:
        """Sends a request and awaits its result."""
        async with self._free_slots:
            if not self.is_open:  # it was closed while this call waited for a slot
                return await call(message, progress)
            self._last_id = number = self._last_id + 1
            message["id"] = number
            frame = encode_frame(message)
            future = self._loop.create_future()
            self._pending[number] = (future, message, progress)
            if not self._send(frame):
                del self._pending[number]
                self._disconnect("")
                return await call(message, progress)
            if len(self._pending) == 1:
                self._busy_poll(time.perf_counter() + _BUSY_POLL_SECONDS)
            try:
                return await future
            except asyncio.CancelledError:
                if self._pending.pop(number, None) is not None:
                    self._send(encode_frame({"id": self._next_id(), "do": "cancel", "call": number}))
                raise

    def _busy_poll(self, until: float) -> None:
        """Keeps the loop from sleeping while it waits for an answer. Other processes with work go first."""
        os.sched_yield()
        if self._pending and time.perf_counter() < until:
            self._loop.call_soon(self._busy_poll, until)

    def close(self) -> None:
        """Closes the connection without touching the loop, which is closed or belongs to another process."""
        self.is_open = False
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, frame: bytes) -> bool:
        """Sends a frame, or queues it. Returns False if the connection is gone."""
        if not self.is_open:
            return False
        if self._unsent:
            self._unsent += frame
            return True
        try:
            sent = self._socket.send(frame)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return False
        if sent < len(frame):
            self._unsent += memoryview(frame)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        return True

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(memoryview(self._unsent)[:CHUNK])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._disconnect("")
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._disconnect("")
            return
        held = self._received
        held += self._buffer[:size]
        at = 0
        try:
            while self.is_open and len(held) - at >= HEADER:
                end = at + HEADER + frame_length(held[at : at + HEADER])
                if len(held) < end:
                    break
                answer = decode_body(held[at + HEADER : end])
                at = end
                self._handle_answer(answer)
        except (BrokerLost, ValueError, KeyError):  # the peer is not a broker
            self._disconnect("The broker sent an invalid frame.")
        del held[:at]

    def _handle_answer(self, answer: Message) -> None:
        number = answer["id"]
        if number == 0:
            self._disconnect(answer["error"]["message"])
            return
        under = self._pending.get(number)
        if under is None:
            return  # it was cancelled
        future, _, progress = under
        update = answer.get("progress")
        if update is not None:
            if progress is not None:
                self._report_progress(number, future, progress, update)
            return
        del self._pending[number]
        if future.done():
            return
        if "error" in answer:
            future.set_exception(exception_from_error(answer["error"]))
        else:
            future.set_result(answer["result"])

    def _report_progress(self, number: int, future: asyncio.Future[Any], progress: Progress, update: Message) -> None:
        try:
            report_progress(progress, update)
        except Exception as error:  # noqa: BLE001 - the caller's own function: its exception fails the call
            if not future.done():
                future.set_exception(error)
            self._pending.pop(number, None)
            self._send(encode_frame({"id": self._next_id(), "do": "cancel", "call": number}))

    def _disconnect(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        under, self._pending = self._pending, {}
        for future, message, _ in under.values():
            if not future.done():
                future.set_exception(connection_lost(message, why))


_connections: dict[asyncio.AbstractEventLoop, LoopConnection] = {}


async def call(message: Message, progress: Progress | None = None) -> Any:
    """Sends a request and awaits its result. Raises the exceptions of `errors`."""
    loop = asyncio.get_running_loop()
    channel = _connections.get(loop)
    if channel is None or not channel.is_open:
        _close_stale()
        channel = _connections[loop] = LoopConnection(loop)
    return await channel.call(message, progress)


def _close_stale() -> None:
    for loop in [loop for loop in _connections if loop.is_closed()]:
        _connections.pop(loop).close()


def _reset_after_fork() -> None:
    """Drops inherited connections in a forked child."""
    for channel in _connections.values():
        channel.close()
    _connections.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
