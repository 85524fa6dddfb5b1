"""Calls from event loops: one connection for each loop, with many calls in flight on it.

A channel belongs to its loop and is used on its thread only. It closes when the broker does, and when its loop was
closed and another loop makes a call. In a child that was forked its descriptor is closed and the loop's own list of
descriptors is left alone: parent and child share that one.
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
    decoded,
    framed,
    length_of,
    lost,
    raised,
    tell,
)
from toolyard_runtime.errors import BrokerLost

_MOST_CALLS = 128
"""In flight on one connection. Fewer than the broker allows, so that a cancellation is always read."""

_AWAKE_SECONDS = 0.0003
"""How long a lone call looks for its answer before it sleeps: most are there by then, being woken takes longer."""

_Under = tuple["asyncio.Future[Any]", Message, "Progress | None"]


class Channel:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._socket = connect()
        self._socket.settimeout(0)
        self._held = bytearray()
        self._buffer = memoryview(bytearray(CHUNK))  # kept, as in `broker.Line`
        self._unsent = bytearray()
        self._under: dict[int, _Under] = {}
        self._last = 0
        self._room = asyncio.Semaphore(_MOST_CALLS)
        self.is_open = True
        loop.add_reader(self._socket.fileno(), self._readable)

    async def call(self, message: Message, progress: Progress | None) -> Any:
        async with self._room:
            if not self.is_open:  # it ended while this call waited for its turn
                return await call(message, progress)
            self._last = number = self._last + 1
            message["id"] = number
            frame = framed(message)
            future = self._loop.create_future()
            self._under[number] = (future, message, progress)
            if not self._send(frame):
                del self._under[number]
                self._end("")
                return await call(message, progress)
            if len(self._under) == 1:
                self._stay_awake(time.perf_counter() + _AWAKE_SECONDS)
            try:
                return await future
            except asyncio.CancelledError:
                if self._under.pop(number, None) is not None:
                    self._send(framed({"id": self._next(), "do": "cancel", "call": number}))
                raise

    def _stay_awake(self, until: float) -> None:
        """Keep the loop from sleeping while it waits for an answer. Whoever else has work goes first."""
        os.sched_yield()
        if self._under and time.perf_counter() < until:
            self._loop.call_soon(self._stay_awake, until)

    def close(self) -> None:
        """Of a loop that is closed, or is another process's: it is not told."""
        self.is_open = False
        self._socket.close()

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _send(self, frame: bytes) -> bool:
        """False when nobody is there any more."""
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
            self._loop.add_writer(self._socket.fileno(), self._writable)
        return True

    def _writable(self) -> None:
        try:
            sent = self._socket.send(memoryview(self._unsent)[:CHUNK])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._end("")
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._end("")
            return
        held = self._held
        held += self._buffer[:size]
        at = 0
        try:
            while self.is_open and len(held) - at >= HEADER:
                end = at + HEADER + length_of(held[at : at + HEADER])
                if len(held) < end:
                    break
                answer = decoded(held[at + HEADER : end])
                at = end
                self._take(answer)
        except (BrokerLost, ValueError, KeyError):  # whoever speaks there is no broker
            self._end("what came back made no sense")
        del held[:at]

    def _take(self, answer: Message) -> None:
        number = answer["id"]
        if number == 0:
            self._end(answer["error"]["message"])
            return
        under = self._under.get(number)
        if under is None:
            return  # it was cancelled
        future, _, progress = under
        told = answer.get("progress")
        if told is not None:
            if progress is not None:
                self._tell(number, future, progress, told)
            return
        del self._under[number]
        if future.done():
            return
        if "error" in answer:
            future.set_exception(raised(answer["error"]))
        else:
            future.set_result(answer["result"])

    def _tell(self, number: int, future: asyncio.Future[Any], progress: Progress, told: Message) -> None:
        try:
            tell(progress, told)
        except Exception as error:  # noqa: BLE001 - the caller's own function: the call it belongs to fails with it
            if not future.done():
                future.set_exception(error)
            self._under.pop(number, None)
            self._send(framed({"id": self._next(), "do": "cancel", "call": number}))

    def _end(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        under, self._under = self._under, {}
        for future, message, _ in under.values():
            if not future.done():
                future.set_exception(lost(message, why))


_channels: dict[asyncio.AbstractEventLoop, Channel] = {}


async def call(message: Message, progress: Progress | None = None) -> Any:
    """Send a request and await what it returns. Raises what `failures` lists."""
    loop = asyncio.get_running_loop()
    channel = _channels.get(loop)
    if channel is None or not channel.is_open:
        _sweep()
        channel = _channels[loop] = Channel(loop)
    return await channel.call(message, progress)


def _sweep() -> None:
    for loop in [loop for loop in _channels if loop.is_closed()]:
        _channels.pop(loop).close()


def _forget() -> None:
    """In a child that was forked."""
    for channel in _channels.values():
        channel.close()
    _channels.clear()


os.register_at_fork(after_in_child=_forget)
