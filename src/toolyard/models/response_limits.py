"""Limits the size of HTTP responses, so that no server can fill the memory of the process.

SDKs read error bodies whole and lines without a limit, so bytes are counted as they arrive. Of an error body only the
beginning is read: nothing more is quoted, and parsed brackets take thirty times their size. A compressed body may
expand a thousandfold, so providers are asked for uncompressed answers, and compressed ones are refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import httpx2

MAX_STREAM_BYTES: Final = 64 * 1024 * 1024
"""Enough for the longest answers with a few hundred bytes of framing per token."""
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_WHOLE_BYTES: Final = 8 * 1024 * 1024
"""For an answer that was requested in one piece and has no framing."""
MAX_ERROR_BYTES: Final = 256 * 1024
_GEMINI_STREAM_PATH: Final = ":streamGenerateContent"
_CHAT_PATH: Final = "/chat/completions"
_STREAM_FLAG: Final = re.compile(rb'"stream"\s*:\s*true\b')
UNCOMPRESSED_HEADERS: Final = {"accept-encoding": "identity"}
"""Request headers that a client must send."""


class ResponseTooLarge(httpx2.ReadError):
    """The response exceeds a limit."""


class CompressedResponse(httpx2.ReadError):
    """The server compressed the response although it was asked not to."""


class NotStreamed(httpx2.ReadError):
    """The server sent the answer in one piece although a stream was requested: it cannot stream."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Applies the limits to every response. Owns the inner transport."""

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
    """Whether the request asks for a stream of an API that many servers implement.

    Anthropic's library would repeat the streaming request regardless.
    """
    return request.url.path.endswith((_CHAT_PATH, _GEMINI_STREAM_PATH)) and is_streaming_request(request)


def is_streaming_request(request: httpx2.Request) -> bool:
    if request.url.path.endswith(_GEMINI_STREAM_PATH):
        return True
    return _STREAM_FLAG.search(request.content) is not None  # inside a string, the quotation marks would be escaped


class _BoundedStream(httpx2.AsyncByteStream):
    """Passes a stream on and raises ResponseTooLarge at the limits."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = 0
        async for piece in self._stream:
            self._left -= len(piece)
            ended = piece.rfind(b"\n")
            line = len(piece) - ended - 1 if ended >= 0 else line + len(piece)
            if self._left < 0 or line > MAX_LINE_BYTES:
                raise ResponseTooLarge("the answer exceeds the size limit")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _TruncatedStream(httpx2.AsyncByteStream):
    """Passes on the first bytes of a stream; the rest is not read."""

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
