"""Connection to a stdio server: JSON-RPC over pipes, with many calls in flight.

A `StdioConnection` owns its server's process (a `ServerProcess`) from `open` until it ends or is closed. It works in
callbacks of the loop that opened it: a call costs one future, one timer and two system calls, but no task. When the
server ends, all pending calls fail with the same error, and the owner is notified once.

Requests of the server are answered here: a ping succeeds, everything else is refused.

`PipeReader` and `PipeWriter` do not block: the loop reports readiness, one system call moves the bytes. Neither owns
its descriptor; the creator of the pipe closes it after `stop()`. A reader holds at most one line of `MAX_LINE_BYTES`:
of a longer one it reports the beginning and the end, and continues with the next. A writer accepts everything, and
`is_full` tells callers to await `wait_for_room()`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolyard.core.eager_call import InlineFuture
from toolyard.core.json_size import MAX_JSON_PARTS, count_json_parts, peek_message_id
from toolyard.core.limits import KIB, MIB
from toolyard.core.upstream import ServerListing, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.connection import ConnectionCallbacks, HandshakeResult, report_progress
from toolyard.mcp_client.errors import (
    METHOD_NOT_FOUND,
    CallRefused,
    CallTimedOut,
    RpcError,
    ServerMisbehaved,
    ServerUnavailable,
    call_failure,
)
from toolyard.mcp_client.negotiation import MODERN_VERSION, REQUEST_META, negotiate
from toolyard.mcp_client.network_hints import network_hint
from toolyard.mcp_client.process import ServerProcess, ServerProgram
from toolyard.mcp_client.results import SecretMask, fetch_all_tools, masked_listing, tool_answer
from toolyard.mcp_client.stderr_tail import OutputTail
from toolyard.mcp_client.watchdog import Watchdog

MAX_LINE_BYTES = 64 * MIB
"""Maximum length of a server's message."""
ENDLESS_BYTES = 16 * MAX_LINE_BYTES
"""A message longer than this is not read to its end."""
_END_BYTES = 1 * KIB
"""Kept from the beginning and the end of a message that is too long: the id is in one of them."""
_READ_BYTES = 256 * KIB
_FULL_BYTES = 1 * MIB
"""Unread bytes after which callers have to wait."""
_QUIET_SECONDS = 0.5
"""From the end of a server's output until it is killed if its process has not exited."""
_SLOW_BYTES = 4 * MIB
"""Longest message that is parsed again with the slow parser, which accepts more."""

_METHOD = b'"method"'
_BEGINNING_BYTES = 256
"""An unparsed message with a method in these bytes is a notification or a request, not an answer."""
_PONG: dict[str, Any] = {"result": {}}
_UNSUPPORTED = {"error": {"code": METHOD_NOT_FOUND, "message": "Toolyard does not support this request"}}


class StdioConnection:
    """Connection to one local server."""

    can_run_eagerly = True

    def __init__(
        self,
        program: ServerProgram,
        mask: SecretMask,
        tail: OutputTail,
        watchdog: Watchdog,
        callbacks: ConnectionCallbacks,
    ) -> None:
        self._server = program.server
        self._mask = mask
        self._tail = tail
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._replies: dict[int, InlineFuture] = {}
        self._progress_listeners: dict[int, UpstreamProgress] = {}
        self._lost_reason: str | None = None
        self._network_hint = ""
        self._closing = False
        self._meta = b""
        self.handshake = HandshakeResult("")
        self._process = ServerProcess(program, tail, watchdog, self._on_exit)
        self._writer = PipeWriter(self._loop, self._process.stdin)
        self._reader = PipeReader(self._loop, self._process.stdout, self._on_line, self._on_eof, self._on_overflow)

    @classmethod
    async def open(
        cls,
        program: ServerProgram,
        mask: SecretMask,
        tail: OutputTail,
        callbacks: ConnectionCallbacks,
        *,
        watchdog: Watchdog,
        seconds: float,
    ) -> StdioConnection:
        """Starts the server and negotiates the protocol. Leaves nothing behind on failure."""
        connection = cls(program, mask, tail, watchdog, callbacks)
        try:
            async with asyncio.timeout(seconds):
                await connection._negotiate()
        except TimeoutError:
            await connection.close()
            raise ServerUnavailable(
                program.server,
                f"did not start within {seconds:g} s{_last_output(tail)}",
                hint=network_hint(tail.stderr) or "Start its command by hand to see what it waits for.",
            ) from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float, progress: UpstreamProgress | None
    ) -> UpstreamResult:
        n = self._last_id = self._last_id + 1
        printed = self._tail.stderr_received
        if progress is not None:
            self._progress_listeners[n] = progress
        try:
            name, encoded_arguments = to_json(tool), self._encode_arguments(tool, arguments)
            token = b'"progressToken":%d' % n if progress is not None else b""
            meta = self._meta + (b"," if self._meta and token else b"") + token
            members = b',"_meta":{%b}' % meta if meta else b""
            line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%b,"arguments":%b%b}}\n'
            result = await self._request_answer(n, tool, line % (n, name, encoded_arguments, members), seconds)
            return tool_answer(self._server, tool, result, self._mask, lambda: self._logged_since(printed))
        except RpcError as error:
            raise call_failure(self._server, tool, error) from None
        finally:
            self._progress_listeners.pop(n, None)

    def _logged_since(self, received: int) -> str:
        self._process.drain_stderr()  # the log may be read after the answer, though it was written before
        return self._tail.stderr_since(received)

    async def server_listing(self, seconds: float) -> ServerListing:
        async def page(cursor: str | None) -> Mapping[str, Any]:
            result = await self.request("tools/list", {} if cursor is None else {"cursor": cursor}, seconds)
            return cast("dict[str, Any]", result) if isinstance(result, dict) else {}

        try:
            async with asyncio.timeout(seconds):
                tools = await fetch_all_tools(
                    self._server, page, self._tail.add_stray_line, lambda: self._reader.received_bytes
                )
        except RpcError as error:
            raise ServerMisbehaved(self._server, f"refused to list its tools: {error.message}") from None
        except TimeoutError:
            raise CallTimedOut(self._server, "tools/list", seconds) from None
        return masked_listing(self.handshake.make_listing(self._server, tools), self._mask)

    async def request(self, method: str, params: Mapping[str, Any], seconds: float) -> object:
        """Sends any request and returns the result as received."""
        n = self._last_id = self._last_id + 1
        body = {**params, "_meta": REQUEST_META} if self._meta else params
        message = {"jsonrpc": "2.0", "id": n, "method": method, "params": body}
        return await self._request_answer(n, method, to_json(message) + b"\n", seconds)

    async def close(self) -> None:
        self._closing = True
        self._writer.stop()
        await self._process.close()

    async def _negotiate(self) -> None:
        async def ask(method: str, params: Mapping[str, Any]) -> object:
            return await self.request(method, params, float("inf"))  # the negotiation as a whole has a deadline

        self.handshake = await negotiate(self._server, ask)
        if self.handshake.protocol != MODERN_VERSION:
            self._send({"method": "notifications/initialized"})
            return
        self._meta = to_json(REQUEST_META)[1:-1]
        if self.handshake.announces_changes:
            # The answer comes at the end of the subscription; nothing waits for it.
            self._last_id += 1
            params = {"notifications": {"toolsListChanged": True}, "_meta": REQUEST_META}
            self._send({"id": self._last_id, "method": "subscriptions/listen", "params": params})

    async def _request_answer(self, n: int, what: str, line: bytes, seconds: float) -> object:
        """Sends a request and waits for its result."""
        if self._lost_reason is not None or self._closing:
            raise self._closed_error()
        future = InlineFuture(loop=self._loop)
        self._replies[n] = future
        timer = None
        if seconds != float("inf"):
            timer = self._loop.call_later(seconds, self._expire, n, what, seconds)
        try:
            if self._writer.is_full:
                await self._wait_for_room(future)
            self._writer.write(line)
            message = await future
        except asyncio.CancelledError:
            self._send_cancelled(n, "the caller no longer waits")
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._replies.pop(n, None)
        error = message.get("error")
        if error is not None:
            raise self._rpc_error(error)
        return message.get("result")

    async def _wait_for_room(self, future: InlineFuture) -> None:
        """Waits until the server has read enough, or the call has ended without being sent."""
        room = asyncio.ensure_future(self._writer.wait_for_room())
        try:
            await asyncio.wait((room, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()
        if future.done():
            future.result()

    def _encode_arguments(self, tool: str, arguments: Mapping[str, Any]) -> bytes:
        try:
            return _encode_json(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            why = f"The arguments of {tool} cannot be written as JSON: {error}"
            raise CallRefused(self._server, tool, why) from None

    def _expire(self, n: int, what: str, seconds: float) -> None:
        future = self._replies.get(n)
        if future is not None and not future.done():
            future.set_exception(CallTimedOut(self._server, what, seconds))
            self._send_cancelled(n, f"no answer within {seconds:g} s")

    def _send_cancelled(self, n: int, reason: str) -> None:
        """Sends notifications/cancelled. The server may ignore it."""
        if not self._writer.is_full:
            self._send({"method": "notifications/cancelled", "params": {"requestId": n, "reason": reason}})

    def _send(self, message: Mapping[str, Any]) -> None:
        self._writer.write(_encode_json({"jsonrpc": "2.0", **message}) + b"\n")

    def _on_line(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        try:
            if len(line) > MAX_JSON_PARTS and count_json_parts(line) > MAX_JSON_PARTS:
                self._fail_unread(line, f"has more than {MAX_JSON_PARTS:,} values")
                return
            message = from_json(line, cache_strings="keys")
        except ValueError as error:
            if len(line) > _SLOW_BYTES:
                self._fail_unread(line, f"cannot be read: {error}")
                return
            message = _parse_slowly(line)
        if isinstance(message, dict):
            self._on_message(cast("dict[str, Any]", message), line)
        elif isinstance(message, list) and message:  # a batch, which some protocol versions allowed
            for one in cast("list[object]", message):
                self._on_message(cast("dict[str, Any]", one) if isinstance(one, dict) else {}, line)
        else:
            self._tail.add_stray_line(line)

    def _fail_unread(self, line: bytes, why: str) -> None:
        """Fails the call of a message that would take too long to parse, if the call can be identified."""
        if _METHOD in line[:_BEGINNING_BYTES]:
            self._tail.add_stray_line(line)
            return
        number = peek_message_id(line)
        if number is None and len(self._replies) == 1:  # it must answer the only pending call
            number = next(iter(self._replies))
        future = self._replies.get(number or 0)
        if future is None or future.done():
            self._tail.add_stray_line(line)
            return
        hint = "Ask for less in one call."
        future.set_exception(ServerMisbehaved(self._server, f"sent an answer that {why}", hint=hint, retryable=False))

    def _on_message(self, message: dict[str, Any], line: bytes) -> None:
        n = message.get("id")
        if "method" in message:
            if n is None:
                self._on_notification(message["method"], message.get("params"))
            elif not isinstance(n, str | int | float):
                self._tail.add_stray_line(line)
            elif not self._writer.is_full:  # a server that does not read gets no answers
                self._send({"id": n, **(_PONG if message["method"] == "ping" else _UNSUPPORTED)})
        elif ("result" in message or "error" in message) and isinstance(n, int):
            future = self._replies.get(n)
            if future is not None and not future.done():
                future.set_result(message)
        else:
            self._tail.add_stray_line(line)

    def _on_notification(self, method: object, params: object) -> None:
        if method == "notifications/tools/list_changed":
            self._callbacks.on_list_changed()
        elif method == "notifications/progress" and isinstance(params, dict):
            progress = cast("dict[str, Any]", params)
            token, done, total = progress.get("progressToken"), progress.get("progress"), progress.get("total")
            listener = self._progress_listeners.get(token) if isinstance(token, int) else None
            if listener is not None and isinstance(done, int | float):
                whole = total if isinstance(total, int | float) else None
                report_progress(listener, done, whole, self._mask(str(progress.get("message") or "")))

    def _rpc_error(self, error: object) -> RpcError:
        body = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
        code = body.get("code")
        message = self._mask(str(body.get("message") or "no reason given"))
        return RpcError(code if isinstance(code, int) else 0, message, body.get("data"))

    def _on_eof(self) -> None:
        """Its output has ended. It should exit now, and is killed otherwise."""
        self._loop.call_later(_QUIET_SECONDS, self._process.send_signal, signal.SIGKILL)

    def _on_overflow(self, ends: bytes | None) -> None:
        """Handles a message that is too long; `ends` are its beginning and end, or None if it is endless."""
        why = f"is longer than {MAX_LINE_BYTES // MIB} MiB"
        if ends is not None:
            self._fail_unread(ends, why)
            return
        self._lost_reason = f"was killed: it sent a message longer than {ENDLESS_BYTES // MIB} MiB"
        self._process.send_signal(signal.SIGKILL)

    def _on_exit(self, code: int) -> None:
        self._reader.drain()  # it may have answered before it exited
        self._reader.stop()
        self._writer.stop()
        if self._lost_reason is None:
            self._lost_reason = f"ended ({_exit_description(code)}){_last_output(self._tail)}"
            self._network_hint = network_hint(self._tail.stderr)
        for future in list(self._replies.values()):  # a callback may remove its entry immediately
            if not future.done():
                future.set_exception(self._closed_error())
        if not self._closing:
            self._closing = True
            self._callbacks.on_lost(self._closed_error())

    def _closed_error(self) -> ServerUnavailable:
        return ServerUnavailable(
            self._server,
            self._lost_reason or "is being closed",
            hint=self._network_hint or "The next call starts it again. `toolyard doctor` shows what it printed.",
        )


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


def _encode_json(message: Mapping[str, Any]) -> bytes:
    try:
        return to_json(message)
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(message).encode()  # a lone surrogate, which only an escape can express


def _parse_slowly(line: bytes) -> object:
    """Parses with `json`, which accepts lone surrogates and deep nesting. None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _exit_description(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _last_output(tail: OutputTail) -> str:
    line = tail.last_line()
    return f"; last output: {line}" if line else ""
