"""A minimal HTTP/1.1 server for model clients on the loopback, faster than a thread for each connection.

Connections are kept alive; request bodies have a length or come in chunks; streams are sent in chunks, each written
on its own, so that they arrive as they are made. A request handler returns the answer, or an awaitable for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolyard.testing.mock_model.replies import HttpReply

_HEAD_ENDS = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A parsed HTTP request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


RequestHandler: TypeAlias = Callable[[HttpRequest], "bytes | Awaitable[HttpReply]"]
"""Returns the complete response bytes, or an awaitable for a reply."""


class ServerConnection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, handler: RequestHandler, all_open: set[ServerConnection]) -> None:
        self._handler = handler
        self._all_open = all_open
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._has_sent_continue = False
        """Whether a client that expects `100 Continue` has received it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._all_open.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._answer_requests()

    def abort(self) -> None:
        """Closes the connection without sending what is buffered."""
        self._transport.abort()

    def _answer_requests(self) -> None:
        """Answers the complete requests in the buffer, one after another."""
        while self._task is None and not self._transport.is_closing():
            received = self._next_request()
            if received is None:
                return
            answer = self._handler(received)
            if isinstance(answer, bytes):
                self._transport.write(answer)
            else:
                self._task = asyncio.ensure_future(self._send_later(answer, with_body=received.method != "HEAD"))

    def _next_request(self) -> HttpRequest | None:
        end = self._buffer.find(_HEAD_ENDS)
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        named = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in named}
        start = end + len(_HEAD_ENDS)
        if "chunked" in headers.get("transfer-encoding", ""):
            found = _decode_chunks(self._buffer, start)
        else:
            over = start + int(headers.get("content-length", "0"))
            found = (bytes(self._buffer[start:over]), over) if len(self._buffer) >= over else None
        if found is None:
            self._send_continue(headers)
            return None
        body, over = found
        del self._buffer[:over]
        self._has_sent_continue = False
        return HttpRequest(method, path, headers, body)

    def _send_continue(self, headers: Mapping[str, str]) -> None:
        if headers.get("expect") == "100-continue" and not self._has_sent_continue:
            self._has_sent_continue = True
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _send_later(self, answer: Awaitable[HttpReply], *, with_body: bool) -> None:
        try:
            await self._send(await answer, with_body=with_body)
        finally:
            self._task = None
        self._answer_requests()

    async def _send(self, reply: HttpReply, *, with_body: bool) -> None:
        if reply.is_cut and not reply.pieces:
            self._transport.close()
            return
        if not reply.is_stream:
            await asyncio.sleep(reply.delay)
            body = b"".join(reply.pieces)
            sent = body[: len(body) // 2] if reply.is_cut else body
            self._transport.write(response_head(reply, len(body)) + (sent if with_body else b""))
        else:
            self._transport.write(response_head(reply, None))
            for piece in reply.pieces:
                await asyncio.sleep(reply.delay)  # also for zero: yields to other tasks
                self._transport.write(encode_chunk(piece))
            if not reply.is_cut:
                self._transport.write(_LAST_CHUNK)
        if reply.is_cut:
            self._transport.close()


def encode_chunk(piece: bytes) -> bytes:
    """Returns one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def response_head(reply: HttpReply, length: int | None) -> bytes:
    """Returns status line and headers; a length of None announces a chunked body."""
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"HTTP/1.1 {reply.status} {_reason_phrase(reply.status)}", f"content-type: {reply.content_type}", size]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def response_bytes(reply: HttpReply) -> bytes:
    """Returns the whole response for a reply without delay or break."""
    if not reply.is_stream:
        body = b"".join(reply.pieces)
        return response_head(reply, len(body)) + body
    return response_head(reply, None) + b"".join(map(encode_chunk, reply.pieces)) + _LAST_CHUNK


async def listen(handler: RequestHandler, all_open: set[ServerConnection], port: int) -> asyncio.Server:
    """Starts a server on 127.0.0.1; port 0 takes a free one."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: ServerConnection(handler, all_open), "127.0.0.1", port, backlog=_BACKLOG)


def _decode_chunks(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    """Returns the body and its end in the buffer; None if it is incomplete."""
    body, at = bytearray(), start
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size = int(bytes(buffer[at:end]).partition(b";")[0], 16)
        at = end + 2 + size + 2
        if len(buffer) < at:
            return None
        if size == 0:
            return bytes(body), at
        body += buffer[end + 2 : end + 2 + size]
    return None


def _reason_phrase(status: int) -> str:
    with contextlib.suppress(ValueError):
        return http.HTTPStatus(status).phrase
    return "Unknown"
