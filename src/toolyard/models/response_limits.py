"""No answer is larger than any model gives: what is more is an error, before it fills the memory of everybody.

SDKs read errors whole, and lines until they end; so the bytes are counted where they arrive. Of an error only the
beginning is read: nobody quotes more, and a body of nothing but brackets takes thirty times its size. What comes
compressed may be a thousand times as large as it looks: providers are asked for answers that are not, and others are
refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import httpx2

MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
"""Bytes. The longest answers, with a few hundred bytes of wrapping for each token."""
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_WHOLE_BYTES: Final = 8 * 1024 * 1024
"""Of an answer that was asked for in one piece, and has no wrapping."""
MAX_ERROR_BYTES: Final = 256 * 1024
_GEMINI_STREAM_PATH: Final = ":streamGenerateContent"
_CHAT_PATH: Final = "/chat/completions"
_STREAM_FLAG: Final = re.compile(rb'"stream"\s*:\s*true\b')
UNCOMPRESSED_HEADERS: Final = {"accept-encoding": "identity"}
"""What a client has to ask for."""


class ResponseTooLarge(httpx2.ReadError):
    """More than an answer can be."""


class CompressedResponse(httpx2.ReadError):
    """A compressed answer, for which nobody asked."""


class NotStreamed(httpx2.ReadError):
    """An answer in one piece, where it was asked for in many. Servers that cannot stream ignore being asked to."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Owns the transport that it is given."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}:
            await response.aclose()
            raise CompressedResponse("the answer is compressed")
        if response.is_success and _is_json(response) and _must_stream(request):
            await response.aclose()
            raise NotStreamed("the answer came in one piece")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _limit_stream(response, response.stream, request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _limit_stream(
    response: httpx2.Response, stream: httpx2.AsyncByteStream, request: httpx2.Request
) -> httpx2.AsyncByteStream:
    if not response.is_success:
        return _TruncatedStream(stream, MAX_ERROR_BYTES)
    return _BoundedStream(stream, MAX_STREAM_BYTES if is_streaming_request(request) else MAX_WHOLE_BYTES)


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _must_stream(request: httpx2.Request) -> bool:
    """Of the APIs that many servers speak: Anthropic's library would ask for pieces again, whatever it is told."""
    return request.url.path.endswith((_CHAT_PATH, _GEMINI_STREAM_PATH)) and is_streaming_request(request)


def is_streaming_request(request: httpx2.Request) -> bool:
    if request.url.path.endswith(_GEMINI_STREAM_PATH):
        return True
    return _STREAM_FLAG.search(request.content) is not None  # in a text, the quotation marks would be escaped


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = 0
        async for piece in self._stream:
            self._left -= len(piece)
            ended = piece.rfind(b"\n")
            line = len(piece) - ended - 1 if ended >= 0 else line + len(piece)
            if self._left < 0 or line > MAX_LINE_BYTES:
                raise ResponseTooLarge("the answer is larger than any model's")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _TruncatedStream(httpx2.AsyncByteStream):
    """So many bytes of it; the rest is not read."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece[: self._left]
            self._left -= len(piece)
            if self._left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()
