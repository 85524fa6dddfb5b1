"""Limits the responses of remote servers before the SDK's client reads them.

That client reads and parses a body of any length on the loop. So every body passes a `LimitedBody` first: one that is
too long, or has too many values, is not read, and a small error replaces it. The same applies to the rest of a stream
with too many messages a second. Only that call fails, and no other call is delayed. Responses are requested
uncompressed, because compressed data can expand to any size, and a server cannot set the SSE retry time.

`ResponseLimits` belongs to one connection and counts what its responses hold together. It owns no resources.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import httpx2

from toolyard.core.json_size import MAX_JSON_PARTS, count_json_parts, peek_message_id
from toolyard.core.limits import MIB
from toolyard.core.token_bucket import TokenBucket
from toolyard.mcp_client.stdio import MAX_LINE_BYTES

REFUSAL_PREFIX = "sent an answer that "
"""Start of the error message that replaces a response."""
_MAX_HELD_BYTES = 2 * MAX_LINE_BYTES
"""Bytes of all responses of one server together."""
_ERROR_CODE = -32000
_EVENT_STREAM = "text/event-stream"
_RETRY_FIELD = b"retry"
_FIRST_BYTES = 200
BURST_EVENTS = 5_000
"""Burst of messages in the streams of one server."""
EVENTS_PER_SECOND = 500
"""After the burst; each costs the SDK a fraction of a millisecond on the shared loop."""


class ResponseLimits:
    """Limits of one connection. Both methods are hooks of an `httpx2.AsyncClient`."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self.received_bytes = 0
        """Bytes so far."""
        self.rate = TokenBucket(BURST_EVENTS, EVENTS_PER_SECOND)

    async def request_identity_encoding(self, request: httpx2.Request) -> None:
        """Request hook: asks for an uncompressed response."""
        request.headers["accept-encoding"] = "identity"

    async def apply(self, response: httpx2.Response) -> None:
        """Response hook: limits the body, which has not been read yet."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = response.headers.pop("content-encoding", "identity").strip().lower()
        request_id = peek_message_id(response.request.content) if response.request.method == "POST" else None
        body = LimitedEventStream if kind == _EVENT_STREAM else LimitedBody
        if kind == _EVENT_STREAM:
            response.encoding = "utf-8"  # as the format requires, whatever the server declares
        response.stream = body(response.stream, self, request_id, is_plain=coding in {"", "identity"})


class LimitedBody(httpx2.AsyncByteStream):
    """A body with at most one message."""

    def __init__(self, stream: object, limits: ResponseLimits, request_id: int | None, *, is_plain: bool) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)  # noqa: S101 - the client is asynchronous
        self._stream = stream
        self._limits = limits
        self._request_id = request_id
        self._is_plain = is_plain
        self._held = bytearray()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self._is_plain:
            yield self._refusal(b"", "is compressed, although uncompressed data was requested")
            return
        try:
            async for chunk in self._stream:
                self._limits.received_bytes += len(chunk)
                for piece in self._accept_chunk(chunk):
                    yield piece
                if self._is_over:
                    break
            for piece in self._rest():
                yield piece
        finally:
            self._release(len(self._held))

    async def aclose(self) -> None:
        self._release(len(self._held))
        await self._stream.aclose()

    @property
    def _is_over(self) -> bool:
        return self._is_long

    @property
    def _is_long(self) -> bool:
        return len(self._held) > self._limits.max_bytes or self._limits.held_bytes > _MAX_HELD_BYTES

    def _hold(self, data: bytes) -> None:
        self._held += data
        self._limits.held_bytes += len(data)

    def _release(self, size: int) -> None:
        size = max(size, 0)
        del self._held[:size]
        self._limits.held_bytes -= size

    def _accept_chunk(self, chunk: bytes) -> Iterator[bytes]:
        self._hold(chunk)
        return iter(())

    def _rest(self) -> Iterator[bytes]:
        if self._held:
            yield self._checked_message(bytes(self._held), is_long=self._is_long)

    def _checked_message(self, message: bytes, *, is_long: bool) -> bytes:
        """Returns the message, or the error that replaces it."""
        if is_long:
            return self._refusal(message, f"is longer than {self._limits.max_bytes // MIB} MiB")
        if len(message) > MAX_JSON_PARTS and count_json_parts(message) > MAX_JSON_PARTS:
            return self._refusal(message, f"has more than {MAX_JSON_PARTS:,} values")
        return message

    def _refusal(self, message: bytes, why: str) -> bytes:
        """Returns a JSON-RPC error for the pending call; empty if the call is not known."""
        number = self._request_id if self._request_id is not None else peek_message_id(message)
        if number is None:
            return b""
        error = {"code": _ERROR_CODE, "message": f"{REFUSAL_PREFIX}{why}"}
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()


class LimitedEventStream(LimitedBody):
    """A stream of messages, each passed on when it is complete. Its total length is not limited."""

    _is_skipping = False
    _is_after_return = False
    _is_flood = False

    @property
    def _is_over(self) -> bool:
        return self._is_flood

    def _accept_chunk(self, chunk: bytes) -> Iterator[bytes]:
        """Yields the events that this chunk completes. Normalizes line endings."""
        if self._is_after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._is_after_return = chunk.endswith(b"\r")
        at = max(len(self._held) - 1, 0)
        self._hold(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        while (end := self._held.find(b"\n\n", at)) >= 0:
            event = bytes(self._held[: end + 2])
            if not self._limits.rate.take():
                self._is_flood = True
                yield self._refusal(b"", f"has more than {EVENTS_PER_SECOND} messages a second")
                return
            if not self._is_skipping:
                yield self._checked_event(event, is_long=len(event) > self._limits.max_bytes)
            self._is_skipping = False
            self._release(len(event))
            at = 0
        if self._is_long:
            if not self._is_skipping:
                yield self._checked_event(bytes(self._held[:_FIRST_BYTES]), is_long=True)
            self._is_skipping = True
        if self._is_skipping:  # the rest of a long event is dropped, except a byte that may start its end
            self._release(len(self._held) - 1)

    def _rest(self) -> Iterator[bytes]:
        if self._held and not self._is_skipping and not self._is_flood:
            yield self._checked_event(bytes(self._held), is_long=False)

    def _checked_event(self, event: bytes, *, is_long: bool) -> bytes:
        if _RETRY_FIELD in event:
            event = b"".join(line for line in event.splitlines(keepends=True) if not line.startswith(_RETRY_FIELD))
        return self._checked_message(event, is_long=is_long)

    def _refusal(self, message: bytes, why: str) -> bytes:
        begins = message.find(b"{")
        error = super()._refusal(message[begins:].rstrip() if begins >= 0 else b"", why)
        return b"event: message\ndata: %b\n\n" % error if error else b""
