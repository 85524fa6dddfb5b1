"""One connection of an agent's code to its broker.

It lives on the broker's loop. Each request becomes a task; the connection owns its tasks and cancels them when it
ends. An invalid frame ends the connection with a reason (a last frame with the id 0), without affecting others. It
reads only as much as `admission` allows.
"""

from __future__ import annotations

import asyncio
import functools
import select
from typing import Any, Protocol, cast

from toolyard.codemode.broker import errors, frames
from toolyard.codemode.broker.admission import AdmissionControl, BrokerLimits
from toolyard.codemode.broker.frames import LENGTH_PREFIX
from toolyard.codemode.broker.requests import (
    CANCEL,
    BrokerRequest,
    CanRunEagerly,
    FailureKind,
    InvalidFrame,
    RequestHandler,
    RequestRefused,
    frame_id,
    ignore_progress,
    parse_request,
)
from toolyard.core.eager_call import EagerCall
from toolyard.core.json_size import PART_BYTES, count_json_parts, peek_message_id
from toolyard.core.limits import KIB

_HEADER_BYTES = LENGTH_PREFIX.size
_UNKNOWN_LENGTH = -1
_SMALL_BYTES = 16 * KIB
"""Frames up to this size stay small in memory, whatever they contain."""
_CLOSED_BY_PEER = select.POLLHUP | select.POLLERR


class ConnectionHost(Protocol):
    """The broker, as its connections see it."""

    agent: str
    handler: RequestHandler
    limits: BrokerLimits
    admission: AdmissionControl
    loop: asyncio.AbstractEventLoop
    buffer: memoryview
    """The loop reads into this buffer for all connections; each copies its data immediately."""
    can_run_eagerly: CanRunEagerly

    def on_connected(self, connection: BrokerConnection) -> None: ...

    def on_disconnected(self, connection: BrokerConnection) -> None: ...

    def watch_for_stall(self, connection: BrokerConnection) -> None:
        """Checks the connection periodically, because it may have stalled."""
        ...

    def pending_bytes(self) -> int:
        """Returns the bytes of answers that the agent has not read."""
        ...


class BrokerConnection(asyncio.BufferedProtocol):
    """The protocol of one connection."""

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._buffer = bytearray()
        self._frame_length = _UNKNOWN_LENGTH
        self._is_admitted = False
        self._is_waiting = False
        self._is_reading = True
        self._is_backpressured = False
        self._is_closed = False
        self.calls: dict[int, EagerCall] = {}
        self._last_progress = 0.0
        self._last_pending_bytes = 0

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._host.limits.buffered_bytes)
        self._host.on_connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's words
        return self._host.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._host.buffer[:nbytes]
        if self._is_closed or (not self._buffer and self._take_single_frame(data)):
            return
        self._buffer += data
        self._take_frames()
        if self._buffer and not self._is_closed:
            self._last_progress = self._host.loop.time()
            self._host.watch_for_stall(self)

    def pause_writing(self) -> None:
        self._is_backpressured = True
        self._last_pending_bytes, self._last_progress = self.pending_bytes, self._host.loop.time()
        self._host.watch_for_stall(self)

    def resume_writing(self) -> None:
        self._is_backpressured = False
        self._resume()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's words
        self._is_closed = True
        self._release_all()
        self._host.on_disconnected(self)

    # Called by the admission control and the broker

    @property
    def needed_bytes(self) -> int:
        return self._frame_length

    @property
    def pending_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def on_admitted(self) -> None:
        self._is_waiting = False
        self._is_admitted = True
        self._host.loop.call_soon(self._resume)

    def check_stall(self) -> bool:
        """Returns whether it has to be checked again. Ends a stalled connection, or one whose peer is gone."""
        if not self._is_reading and self._is_peer_gone():
            self._transport.abort()
            return False
        now, unread = self._host.loop.time(), self.pending_bytes
        if unread < self._last_pending_bytes:
            self._last_progress = now
        self._last_pending_bytes = unread
        is_partial = bool(self._buffer) and self._is_reading and not self._is_closed
        if not unread and not is_partial:
            return not self._is_reading
        if now - self._last_progress > self._host.limits.stall_seconds:
            if unread:
                self._transport.abort()  # the peer does not read, so it cannot get a reason
                return False
            self.close_with_reason("a frame is incomplete, and no more data arrived")
        return True

    def close_with_reason(self, reason: str) -> None:
        """Sends the reason and closes. Calls in progress are cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        self._release_all()
        self._write(frames.encode_frame(closing_frame(reason), self._host.limits.frame_bytes))
        self._transport.close()
        self._host.watch_for_stall(self)

    def abort(self) -> None:
        self._transport.abort()

    # Requests

    def _resume(self) -> None:
        if not self._is_closed:
            self._take_frames()

    def _take_single_frame(self, data: memoryview) -> bool:
        """The fast path: the data is exactly one frame, and it is admitted."""
        if (
            self._frame_length != _UNKNOWN_LENGTH
            or len(data) < _HEADER_BYTES
            or len(data) - _HEADER_BYTES != LENGTH_PREFIX.unpack_from(data)[0]
        ):
            return False
        try:
            self._frame_length = self._check_length(len(data) - _HEADER_BYTES)
            if not self._try_admit():
                self._frame_length = self._frame_length if self._is_waiting else _UNKNOWN_LENGTH
                return False
            self._handle_frame(bytes(data[_HEADER_BYTES:]))
        except InvalidFrame as fault:
            self.close_with_reason(str(fault))
        return True

    def _take_frames(self) -> None:
        """Handles each complete frame that is received and admitted."""
        held, at = self._buffer, 0
        try:
            while not self._is_closed and not self._is_waiting:
                if self._frame_length == _UNKNOWN_LENGTH:
                    if len(held) - at < _HEADER_BYTES:
                        break
                    self._frame_length = self._check_length(LENGTH_PREFIX.unpack_from(held, at)[0])
                if not self._is_admitted and not self._try_admit():
                    break
                end = at + _HEADER_BYTES + self._frame_length
                if len(held) < end:
                    break
                body = bytes(memoryview(held)[at + _HEADER_BYTES : end])
                at = end
                self._handle_frame(body)
        except InvalidFrame as fault:
            self.close_with_reason(str(fault))
        if self._is_closed:
            held.clear()
            return
        del held[:at]
        self._set_reading(is_wanted=self._is_admitted or self._frame_length == _UNKNOWN_LENGTH)

    def _check_length(self, length: int) -> int:
        most = self._host.limits.frame_bytes
        if not 0 < length <= most:
            raise InvalidFrame(f"a frame has {length} bytes, and it has to be between 1 and {most}")
        return length

    def _try_admit(self) -> bool:
        if self._is_backpressured or len(self.calls) >= self._host.limits.calls_per_connection:
            return False
        self._is_admitted = self._host.admission.admit(self)
        self._is_waiting = not self._is_admitted
        return self._is_admitted

    def _set_reading(self, *, is_wanted: bool) -> None:
        if is_wanted is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self._last_progress = self._host.loop.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            self._host.watch_for_stall(self)

    def _handle_frame(self, body: bytes) -> None:
        if len(body) > _SMALL_BYTES and not self._charge_for_parsing(body):
            return
        frame = frames.parse_frame(body)
        number = frame_id(frame)
        size, self._frame_length, self._is_admitted = self._frame_length, _UNKNOWN_LENGTH, False
        if number in self.calls:
            self._host.admission.release(size)
            raise InvalidFrame(f"two calls have the id {number}")
        if frame.get("do") == CANCEL:
            self._host.admission.release(size)
            self._cancel(frame.get("call"))
            return
        try:
            request = parse_request(self._host.agent, frame)
        except RequestRefused as refusal:
            self._host.admission.release(size)
            self._send_answer(number, {"error": errors.error_payload(refusal)})
            return
        work = self._serve(number, request, wants_progress=frame.get("progress") is True)
        call = self.calls[number] = EagerCall(
            work, self._host.loop, functools.partial(self._on_call_done, number, size)
        )
        call.start(as_task=request.timeout is not None or not self._host.can_run_eagerly(request))

    def _charge_for_parsing(self, body: bytes) -> bool:
        """Charges the memory that a frame takes once parsed. Returns False if it was refused instead."""
        home = self._host
        parts = count_json_parts(body, home.limits.parts)
        if parts > home.limits.parts:
            most = f"{home.limits.parts:,} values"
            refusal = RequestRefused(
                FailureKind.ARGUMENTS, f"The arguments have more than {most}. Write them to a file and pass its path."
            )
        elif not home.admission.charge_bytes(parts * PART_BYTES):
            refusal = RequestRefused(
                FailureKind.SYSTEM, "Other calls use too much memory for this one. Retry it when they are done."
            )
        else:
            self._frame_length += parts * PART_BYTES
            return True
        number = peek_message_id(body)
        if not number or number in self.calls:
            raise InvalidFrame(f"a frame without a usable id was refused: {refusal.message}")
        size, self._frame_length, self._is_admitted = self._frame_length, _UNKNOWN_LENGTH, False
        home.admission.release(size)
        self._send_answer(number, {"error": errors.error_payload(refusal)})
        return False

    def _cancel(self, number: object) -> None:
        call = self.calls.get(number) if isinstance(number, int) else None
        if call is not None:
            call.cancel()

    def _on_call_done(self, number: int, size: int, fault: BaseException | None) -> None:
        """Runs also for a call that was cancelled before it began."""
        del self.calls[number]
        self._host.admission.release(size)
        if fault is not None and not isinstance(fault, asyncio.CancelledError):
            self._host.loop.call_exception_handler({"message": "a broker call failed", "exception": fault})
        if not self._is_reading:
            self._host.loop.call_soon(self._resume)

    async def _serve(self, number: int, request: BrokerRequest, *, wants_progress: bool) -> None:
        progress = functools.partial(self._send_progress, number) if wants_progress else ignore_progress
        try:
            if request.timeout is None:
                answer = await self._host.handler(request, progress)
            else:
                async with asyncio.timeout(request.timeout):
                    answer = await self._host.handler(request, progress)
            self._send_answer(number, {"result": errors.result_payload(answer)})
        except Exception as error:  # noqa: BLE001 - outermost frame: every call gets an answer
            self._send_answer(number, {"error": errors.error_payload(error, request)})

    def _send_progress(self, number: int, done: float, total: float | None, message: str) -> None:
        """Sends progress, or drops it if the peer does not read: the next report supersedes it."""
        if number in self.calls and not self._is_backpressured:
            self._send_answer(number, {"progress": {"done": done, "total": total, "message": message}})

    def _send_answer(self, number: int, payload: dict[str, Any]) -> None:
        """Sends an answer. Raises RequestRefused if it does not fit into a frame; a refusal always fits."""
        self._write(frames.encode_frame({"id": number, **payload}, self._host.limits.frame_bytes))

    def _write(self, frame: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(frame)
        if self._is_backpressured and self._host.pending_bytes() > self._host.limits.unread_bytes:
            self._transport.abort()

    def _release_all(self) -> None:
        """Cancels all calls and releases everything that is reserved."""
        for call in list(self.calls.values()):  # cancelling an eager call removes it from the dict
            call.cancel()
        self._host.admission.cancel_waiting(self)
        self._is_waiting = False
        if self._is_admitted:
            self._is_admitted = False
            self._host.admission.release(self._frame_length)
        self._frame_length = _UNKNOWN_LENGTH

    def _is_peer_gone(self) -> bool:
        """Whether the peer has closed. The loop does not report that while reading is paused."""
        poller = select.poll()
        poller.register(self._transport.get_extra_info("socket").fileno(), 0)
        return any(events & _CLOSED_BY_PEER for _, events in poller.poll(0))


def closing_frame(reason: str) -> dict[str, Any]:
    """Returns the frame that says why a connection ends."""
    return {
        "id": 0,
        "error": {"kind": FailureKind.LOST.value, "message": f"Toolyard closed the connection: {reason}."},
    }
