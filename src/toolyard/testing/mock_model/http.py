"""HTTP/1.1 on the loopback, as far as clients of models use it, and quicker than a thread for each connection.

Connections are kept; bodies come with a length or in chunks; streams go out in chunks, each written by itself, so
that they arrive as they are made. Whatever answers is a function of the request, which may wait.
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
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


RequestHandler: TypeAlias = Callable[[HttpRequest], "bytes | Awaitable[HttpReply]"]
"""Gives the whole answer at once, head and all, or something that will be one."""


class ServerConnection(asyncio.Protocol):
    def __init__(self, handler: RequestHandler, all_open: set[ServerConnection]) -> None:
        self._handler = handler
        self._all_open = all_open
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._has_sent_continue = False
        """Whether a client that waits to be told so was told to send its body."""

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
        self._transport.abort()

    def _answer_requests(self) -> None:
        """Answer what has come in whole, one request after another."""
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
                await asyncio.sleep(reply.delay)  # also where it is zero: others have their turn
                self._transport.write(encode_chunk(piece))
            if not reply.is_cut:
                self._transport.write(_LAST_CHUNK)
        if reply.is_cut:
            self._transport.close()


def encode_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def response_head(reply: HttpReply, length: int | None) -> bytes:
    """A length of None: the body comes in chunks."""
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"HTTP/1.1 {reply.status} {_reason_phrase(reply.status)}", f"content-type: {reply.content_type}", size]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def response_bytes(reply: HttpReply) -> bytes:
    """All that is sent for a reply that neither waits nor breaks off."""
    if not reply.is_stream:
        body = b"".join(reply.pieces)
        return response_head(reply, len(body)) + body
    return response_head(reply, None) + b"".join(map(encode_chunk, reply.pieces)) + _LAST_CHUNK


async def listen(handler: RequestHandler, all_open: set[ServerConnection], port: int) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: ServerConnection(handler, all_open), "127.0.0.1", port, backlog=_BACKLOG)


def _decode_chunks(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    """The body, and where it ends; None where it is not all there."""
    found, at = bytearray(), start
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size = int(bytes(buffer[at:end]).partition(b";")[0], 16)
        at = end + 2 + size + 2
        if len(buffer) < at:
            return None
        if size == 0:
            return bytes(found), at
        found += buffer[end + 2 : end + 2 + size]
    return None


def _reason_phrase(status: int) -> str:
    with contextlib.suppress(ValueError):
        return http.HTTPStatus(status).phrase
    return "Unknown"
