"""One connection of an agent's code to its broker, and the frames on it.

A frame is a length of four bytes (little-endian), then that many bytes of JSON in UTF-8. A connection lives on the
broker's loop. Each request becomes a task; the connection owns its tasks and cancels them when it ends. An invalid
frame ends the connection with a reason (a last frame with the id 0), without affecting others. It reads only as much
as the `AdmissionControl` of its agent allows.
"""

from __future__ import annotations

import asyncio
import functools
import json
import select
import struct
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolyard.codemode.broker.requests import (
    BrokerLimits,
    BrokerRequest,
    CanRunEagerly,
    FailureKind,
    RequestHandler,
    RequestKind,
    RequestRefused,
    ignore_progress,
)
from toolyard.core.eager_call import EagerCall
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.json_size import PART_BYTES, count_json_parts, peek_message_id
from toolyard.core.limits import KIB, MIB
from toolyard.core.upstream import UpstreamResult
from toolyard.mcp_client.errors import CallTimedOut, ServerUnavailable

LENGTH_PREFIX = struct.Struct("<I")
_HEADER_BYTES = LENGTH_PREFIX.size
_UNKNOWN_LENGTH = -1
_SMALL_BYTES = 16 * KIB
"""Frames up to this size stay small in memory, whatever they contain."""
_CLOSED_BY_PEER = select.POLLHUP | select.POLLERR
MAX_TIMEOUT_SECONDS = 86_400.0
"""The longest timeout that a call may set."""
MAX_NAME_CHARS = 1_000
"""Limit for names of servers and tools: they are compared with many others, and cached."""
CANCEL = "cancel"
"""Cancels the call whose id is in `call`."""
_FAILURE_KINDS: tuple[tuple[type[Exception], FailureKind], ...] = (
    (CallTimedOut, FailureKind.TIMEOUT),
    (ServerUnavailable, FailureKind.UNAVAILABLE),
    (SecurityError, FailureKind.PERMISSION),
    (ValidationError, FailureKind.ARGUMENTS),
    (ToolError, FailureKind.TOOL),
)


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
        self._write(encode_frame(closing_frame(reason), self._host.limits.frame_bytes))
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
        frame = parse_frame(body)
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
            self._send_answer(number, {"error": error_payload(refusal)})
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
        self._send_answer(number, {"error": error_payload(refusal)})
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
            self._send_answer(number, {"result": result_payload(answer)})
        except Exception as error:  # noqa: BLE001 - outermost frame: every call gets an answer
            self._send_answer(number, {"error": error_payload(error, request)})

    def _send_progress(self, number: int, done: float, total: float | None, message: str) -> None:
        """Sends progress, or drops it if the peer does not read: the next report supersedes it."""
        if number in self.calls and not self._is_backpressured:
            self._send_answer(number, {"progress": {"done": done, "total": total, "message": message}})

    def _send_answer(self, number: int, payload: dict[str, Any]) -> None:
        """Sends an answer. Raises RequestRefused if it does not fit into a frame; a refusal always fits."""
        self._write(encode_frame({"id": number, **payload}, self._host.limits.frame_bytes))

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


class AdmissionControl:
    """Limits the calls and bytes that one agent has in progress, over all of its connections.

    A request is admitted before it is read: its slot and its bytes are reserved, and released once it is answered. A
    request that does not fit waits, and its connection is not read meanwhile. The host thus holds a bounded amount of
    data per agent, and one agent cannot delay others.
    """

    def __init__(self, limits: BrokerLimits) -> None:
        self._limits = limits
        self._calls = 0
        self._bytes = 0
        self._waiting: deque[BrokerConnection] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._calls and not self._bytes and not self._waiting

    def admit(self, waiter: BrokerConnection) -> bool:
        """Reserves what a request needs. Returns False if it has to wait for `on_admitted`."""
        if not self._waiting and self._has_room(waiter.needed_bytes):
            self._reserve(waiter.needed_bytes)
            return True
        self._waiting.append(waiter)
        return False

    def charge_bytes(self, size: int) -> bool:
        """Reserves more bytes for an admitted request. Returns False if other requests leave no room."""
        if self._calls > 1 and self._bytes + size > self._limits.request_bytes:
            return False
        self._bytes += size
        return True

    def release(self, size: int) -> None:
        """Releases an answered request and admits waiting ones."""
        self._calls -= 1
        self._bytes -= size
        self._admit_waiting()

    def cancel_waiting(self, waiter: BrokerConnection) -> None:
        """Removes a waiter from the queue."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            self._admit_waiting()

    def _has_room(self, size: int) -> bool:
        return self._calls < self._limits.calls and self._bytes + size <= self._limits.request_bytes

    def _reserve(self, size: int) -> None:
        self._calls += 1
        self._bytes += size

    def _admit_waiting(self) -> None:
        while self._waiting and self._has_room(self._waiting[0].needed_bytes):
            who = self._waiting.popleft()
            self._reserve(who.needed_bytes)
            who.on_admitted()


class InvalidFrame(Exception):  # noqa: N818 - says what the frame is
    """A frame that makes the rest of its connection unreliable."""


def frame_id(frame: object) -> int:
    """Returns the id of a frame. Raises InvalidFrame."""
    if not isinstance(frame, dict):
        raise InvalidFrame("a frame has to be a JSON object")
    number = cast("dict[str, object]", frame).get("id")
    if type(number) is not int or number <= 0:
        raise InvalidFrame('a frame needs an "id", a whole number above 0')
    return number


def parse_request(agent: str, frame: Mapping[str, Any]) -> BrokerRequest:
    """Parses a frame. Raises RequestRefused if a part is invalid."""
    arguments, seconds = frame.get("arguments", {}), frame.get("timeout")
    server, tool = frame.get("server", ""), frame.get("tool", "")
    try:
        do = RequestKind(frame.get("do", ""))
    except ValueError:
        raise RequestRefused(FailureKind.ARGUMENTS, f'"do" is one of {", ".join(RequestKind)} or {CANCEL}.') from None
    if not isinstance(arguments, dict):
        raise RequestRefused(FailureKind.ARGUMENTS, "The arguments have to be a JSON object: names and values.")
    if not isinstance(server, str) or not isinstance(tool, str):
        raise RequestRefused(FailureKind.ARGUMENTS, "The names of server and tool have to be text.")
    if len(server) > MAX_NAME_CHARS or len(tool) > MAX_NAME_CHARS:
        raise RequestRefused(
            FailureKind.ARGUMENTS, f"The names of server and tool have at most {MAX_NAME_CHARS:,} characters."
        )
    if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds <= MAX_TIMEOUT_SECONDS):
        raise RequestRefused(
            FailureKind.ARGUMENTS, f"The time-out has to be a number of seconds, at most {MAX_TIMEOUT_SECONDS:g}."
        )
    return BrokerRequest(agent, do, server, tool, cast("dict[str, Any]", arguments), seconds)


def parse_frame(body: bytes | bytearray) -> Any:
    """Parses the body of a frame. Raises InvalidFrame."""
    try:
        return from_json(body)
    except ValueError as error:
        raise InvalidFrame(f"a frame is not valid JSON: {error}") from None


def encode_frame(message: dict[str, Any], max_bytes: int) -> bytes:
    """Encodes a frame. Raises RequestRefused if it is too long, or cannot be represented in JSON."""
    try:
        body = to_json(message, inf_nan_mode="constants")
    except PydanticSerializationError:
        body = _encode_with_escapes(message)
    if len(body) > max_bytes:
        size = f"{len(body) / MIB:.1f} MiB, and the limit is {max_bytes / MIB:g} MiB"
        raise RequestRefused(FailureKind.SYSTEM, f"The answer has {size}. Ask for a part of it, or for a file.")
    return LENGTH_PREFIX.pack(len(body)) + body


def _encode_with_escapes(message: dict[str, Any]) -> bytes:
    """Encodes text with lone surrogates, which only escapes can represent."""
    try:
        return json.dumps(message, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestRefused(FailureKind.SYSTEM, f"The answer cannot be encoded as JSON: {error}.") from None


def error_payload(error: Exception, request: BrokerRequest | None = None) -> dict[str, Any]:
    """Returns the `error` of an answer."""
    if isinstance(error, RequestRefused):
        payload: dict[str, Any] = {"kind": str(error.kind), "message": error.message}
        if error.content:
            payload["content"] = list(error.content)
    elif isinstance(error, ToolyardError):
        kind = next((kind for fault, kind in _FAILURE_KINDS if isinstance(error, fault)), FailureKind.SYSTEM)
        payload = {"kind": kind.value, "message": str(error)}
    elif isinstance(error, TimeoutError):
        payload = {"kind": FailureKind.TIMEOUT.value, "message": _timeout_message(request)}
    else:
        message = f"Toolyard itself failed ({type(error).__name__}). Run `toolyard doctor`, and report the bug."
        payload = {"kind": FailureKind.SYSTEM.value, "message": message}
    return payload if request is None else {**payload, "server": request.server, "tool": request.tool}


def _timeout_message(request: BrokerRequest | None) -> str:
    if request is None or request.timeout is None:
        return "It took too long. Ask for less in one call."
    name = f"{request.server}.{request.tool}".strip(".") or request.do.value
    return f"{name} did not answer within {request.timeout:g} s. Ask for less in one call, or give it more time."


def result_payload(answer: object) -> object:
    """Returns the `result` of an answer. Raises RequestRefused if the tool reported an error."""
    if not isinstance(answer, UpstreamResult):
        return answer
    if answer.is_error:
        raise RequestRefused(FailureKind.TOOL, answer.text or "The tool failed without a message.", answer.content)
    result: dict[str, Any] = {"content": answer.content}
    if answer.structured is not None:
        result["structured"] = answer.structured
    return result
