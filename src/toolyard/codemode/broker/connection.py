"""One connection of an agent's code to its broker.

Contract: it lives on the broker's loop. Each request becomes a task; the connection owns its tasks and cancels them
when it ends, whoever ended it. What it cannot understand ends it with a reason (a last frame with the number 0), and
concerns no other connection. It reads only what it may hold: see `account`.
"""

from __future__ import annotations

import asyncio
import functools
import select
from typing import Any, Protocol, cast

from toolyard.codemode.broker import errors, frames
from toolyard.codemode.broker.admission import Account, BrokerLimits
from toolyard.codemode.broker.frames import LENGTH
from toolyard.codemode.broker.requests import (
    CANCEL,
    BrokenFrame,
    BrokerRequest,
    GoesStraight,
    Handler,
    Kind,
    Refused,
    number_of,
    read,
    tell_nobody,
)
from toolyard.core.eager_call import Straight
from toolyard.core.json_size import PART_BYTES, number_in, parts_of
from toolyard.core.limits import KIB

_HEADER = LENGTH.size
_NOT_READ = -1
_SMALL_BYTES = 16 * KIB
"""Frames that become nothing large, whatever is in them."""
_CLOSED_BY_PEER = select.POLLHUP | select.POLLERR


class Home(Protocol):
    """The broker, as its connections see it."""

    agent: str
    handler: Handler
    limits: BrokerLimits
    account: Account
    loop: asyncio.AbstractEventLoop
    buffer: memoryview
    """What the loop reads into, for all of them: each takes its own at once."""
    goes_straight: GoesStraight

    def came(self, connection: Connection) -> None: ...

    def went(self, connection: Connection) -> None: ...

    def watch(self, connection: Connection) -> None:
        """Look at it from time to time: it may stand still."""
        ...

    def unread(self) -> int:
        """Bytes of answers that the agent has not read."""
        ...


class Connection(asyncio.BufferedProtocol):
    def __init__(self, home: Home) -> None:
        self._home = home
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._held = bytearray()
        self._length = _NOT_READ
        self._is_admitted = False
        self._waits = False
        self._is_reading = True
        self._is_stuffed = False
        self._is_over = False
        self.calls: dict[int, Straight] = {}
        self._moved = 0.0
        self._unread_before = 0

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._home.limits.buffered_bytes)
        self._home.came(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's words
        return self._home.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._home.buffer[:nbytes]
        if self._is_over or (not self._held and self._takes_at_once(data)):
            return
        self._held += data
        self._take()
        if self._held and not self._is_over:
            self._moved = self._home.loop.time()
            self._home.watch(self)

    def pause_writing(self) -> None:
        self._is_stuffed = True
        self._unread_before, self._moved = self.unread, self._home.loop.time()
        self._home.watch(self)

    def resume_writing(self) -> None:
        self._is_stuffed = False
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's words
        self._is_over = True
        self._give_up()
        self._home.went(self)

    # What the account and the broker call

    @property
    def needed(self) -> int:
        return self._length

    @property
    def unread(self) -> int:
        return self._transport.get_write_buffer_size()

    def admitted(self) -> None:
        self._waits = False
        self._is_admitted = True
        self._home.loop.call_soon(self._go_on)

    def look(self) -> bool:
        """Whether it has to be looked at again. Ends it when it stands still, or when nobody is there any more."""
        if not self._is_reading and self._has_hung_up():
            self._transport.abort()
            return False
        now, unread = self._home.loop.time(), self.unread
        if unread < self._unread_before:
            self._moved = now
        self._unread_before = unread
        is_halved = bool(self._held) and self._is_reading and not self._is_over
        if not unread and not is_halved:
            return not self._is_reading
        if now - self._moved > self._home.limits.stall_seconds:
            if unread:
                self._transport.abort()  # nobody reads, so nobody can be told
                return False
            self.end("half a frame came, and nothing after it")
        return True

    def end(self, reason: str) -> None:
        """Say why, and close. Calls under way are cancelled."""
        if self._is_over:
            return
        self._is_over = True
        self._give_up()
        self._write(frames.framed(last_words(reason), self._home.limits.frame_bytes))
        self._transport.close()
        self._home.watch(self)

    def abort(self) -> None:
        self._transport.abort()

    # Requests

    def _go_on(self) -> None:
        if not self._is_over:
            self._take()

    def _takes_at_once(self, data: memoryview) -> bool:
        """The usual case, without a detour: what came is one frame, and there is room for it."""
        if self._length != _NOT_READ or len(data) < _HEADER or len(data) - _HEADER != LENGTH.unpack_from(data)[0]:
            return False
        try:
            self._length = self._checked(len(data) - _HEADER)
            if not self._may_go_on():
                self._length = self._length if self._waits else _NOT_READ
                return False
            self._obey(bytes(data[_HEADER:]))
        except BrokenFrame as fault:
            self.end(str(fault))
        return True

    def _take(self) -> None:
        """Obey each whole frame that was received and may be."""
        held, at = self._held, 0
        try:
            while not self._is_over and not self._waits:
                if self._length == _NOT_READ:
                    if len(held) - at < _HEADER:
                        break
                    self._length = self._checked(LENGTH.unpack_from(held, at)[0])
                if not self._is_admitted and not self._may_go_on():
                    break
                end = at + _HEADER + self._length
                if len(held) < end:
                    break
                body = bytes(memoryview(held)[at + _HEADER : end])
                at = end
                self._obey(body)
        except BrokenFrame as fault:
            self.end(str(fault))
        if self._is_over:
            held.clear()
            return
        del held[:at]
        self._read_on(is_wanted=self._is_admitted or self._length == _NOT_READ)

    def _checked(self, length: int) -> int:
        most = self._home.limits.frame_bytes
        if not 0 < length <= most:
            raise BrokenFrame(f"a frame has {length} bytes, and it has to be between 1 and {most}")
        return length

    def _may_go_on(self) -> bool:
        if self._is_stuffed or len(self.calls) >= self._home.limits.calls_per_connection:
            return False
        self._is_admitted = self._home.account.admit(self)
        self._waits = not self._is_admitted
        return self._is_admitted

    def _read_on(self, *, is_wanted: bool) -> None:
        if is_wanted is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self._moved = self._home.loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            self._home.watch(self)

    def _obey(self, body: bytes) -> None:
        if len(body) > _SMALL_BYTES and not self._may_be_parsed(body):
            return
        frame = frames.parsed(body)
        number = number_of(frame)
        size, self._length, self._is_admitted = self._length, _NOT_READ, False
        if number in self.calls:
            self._home.account.give_back(size)
            raise BrokenFrame(f"two calls have the number {number}")
        if frame.get("do") == CANCEL:
            self._home.account.give_back(size)
            self._cancel(frame.get("call"))
            return
        try:
            request = read(self._home.agent, frame)
        except Refused as refusal:
            self._home.account.give_back(size)
            self._answer(number, {"error": errors.worded(refusal)})
            return
        work = self._serve(number, request, wants_progress=frame.get("progress") is True)
        call = self.calls[number] = Straight(work, self._home.loop, functools.partial(self._is_done, number, size))
        call.start(as_task=request.timeout is not None or not self._home.goes_straight(request))

    def _may_be_parsed(self, body: bytes) -> bool:
        """Charge what becomes of a frame in memory. False where it was refused instead."""
        home = self._home
        parts = parts_of(body, home.limits.parts)
        if parts > home.limits.parts:
            most = f"{home.limits.parts:,} values"
            refusal = Refused(Kind.ARGUMENTS, f"These are more than {most}. Write them to a file and pass its path.")
        elif not home.account.charge(parts * PART_BYTES):
            refusal = Refused(Kind.SYSTEM, "Too much is under way for this call. Make it again when others are done.")
        else:
            self._length += parts * PART_BYTES
            return True
        number = number_in(body)
        if not number or number in self.calls:
            raise BrokenFrame(f"a frame cannot be carried out, and it has no number to say so to: {refusal.message}")
        size, self._length, self._is_admitted = self._length, _NOT_READ, False
        home.account.give_back(size)
        self._answer(number, {"error": errors.worded(refusal)})
        return False

    def _cancel(self, number: object) -> None:
        call = self.calls.get(number) if isinstance(number, int) else None
        if call is not None:
            call.cancel()

    def _is_done(self, number: int, size: int, fault: BaseException | None) -> None:
        """Also of a call that was cancelled before it began, which runs no line of its own."""
        del self.calls[number]
        self._home.account.give_back(size)
        if fault is not None and not isinstance(fault, asyncio.CancelledError):
            self._home.loop.call_exception_handler({"message": "a broker's call failed", "exception": fault})
        if not self._is_reading:
            self._home.loop.call_soon(self._go_on)

    async def _serve(self, number: int, request: BrokerRequest, *, wants_progress: bool) -> None:
        progress = functools.partial(self._tell_progress, number) if wants_progress else tell_nobody
        try:
            if request.timeout is None:
                answer = await self._home.handler(request, progress)
            else:
                async with asyncio.timeout(request.timeout):
                    answer = await self._home.handler(request, progress)
            self._answer(number, {"result": errors.result_of(answer)})
        except Exception as error:  # noqa: BLE001 - the outermost edge: every call gets an answer
            self._answer(number, {"error": errors.worded(error, request)})

    def _tell_progress(self, number: int, done: float, total: float | None, message: str) -> None:
        """Dropped where nobody reads: the next one says more."""
        if number in self.calls and not self._is_stuffed:
            self._answer(number, {"progress": {"done": done, "total": total, "message": message}})

    def _answer(self, number: int, said: dict[str, Any]) -> None:
        """Raises Refused where it does not fit; a refusal always does."""
        self._write(frames.framed({"id": number, **said}, self._home.limits.frame_bytes))

    def _write(self, frame: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(frame)
        if self._is_stuffed and self._home.unread() > self._home.limits.unread_bytes:
            self._transport.abort()

    def _give_up(self) -> None:
        """Hold nothing any more."""
        for call in list(self.calls.values()):  # one that goes straight is over when it was cancelled
            call.cancel()
        self._home.account.leave(self)
        self._waits = False
        if self._is_admitted:
            self._is_admitted = False
            self._home.account.give_back(self._length)
        self._length = _NOT_READ

    def _has_hung_up(self) -> bool:
        """While it is not read the loop does not tell."""
        looking = select.poll()
        looking.register(self._transport.get_extra_info("socket").fileno(), 0)
        return any(events & _CLOSED_BY_PEER for _, events in looking.poll(0))


def last_words(reason: str) -> dict[str, Any]:
    """The frame that says why a connection ends."""
    return {"id": 0, "error": {"kind": Kind.LOST.value, "message": f"Toolyard closed the connection: {reason}."}}
