"""Escapes Unicode line separators in streamed answers, which Google's SDK would take for line ends.

A stream consists of lines that end in CR or LF, but the SDK splits at everything that Python's `splitlines` does. An
answer that quotes such a character (U+2028 occurs in many JavaScript files) could not be parsed. The payload is JSON,
in which the characters can be written as escapes; their bytes occur in no other character.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import httpx2

from toolyard.models.response_limits import is_streaming_request

_ESCAPES: Final = {"\u0085".encode(): b"\\u0085", "\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}
_SEPARATOR: Final = re.compile(b"|".join(_ESCAPES))
_PARTIAL_SEPARATOR: Final = re.compile(rb"(?:\xc2|\xe2\x80?)\Z")
"""The first bytes of a separator at the end of a chunk."""


class SseLineFixTransport(httpx2.AsyncBaseTransport):
    """Escapes separators in streamed answers. Owns the inner transport."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if (
            response.is_success
            and is_streaming_request(request)
            and isinstance(response.stream, httpx2.AsyncByteStream)
        ):
            response.stream = _EscapedStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _EscapedStream(httpx2.AsyncByteStream):
    """Passes a stream on with the separators escaped, also if a chunk ends inside one."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pending = b""
        async for piece in self._stream:
            whole = pending + piece
            begun = _PARTIAL_SEPARATOR.search(whole, max(0, len(whole) - 2))
            pending = begun[0] if begun else b""
            yield _SEPARATOR.sub(lambda sign: _ESCAPES[sign[0]], whole[: len(whole) - len(pending)])
        if pending:
            yield pending

    async def aclose(self) -> None:
        await self._stream.aclose()
