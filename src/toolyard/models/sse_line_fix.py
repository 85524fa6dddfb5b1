"""Signs that end a line to some libraries, and to the format of streams do not.

An answer in pieces is a stream of lines that end in CR or LF. Google's SDK takes for an end what Python does, so an
answer that quotes such a sign (U+2028 stands in many a JavaScript file) could not be read. All that comes is JSON, in
which the sign can be spelled; its bytes occur in no other.
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
"""The beginning of a sign at the end of a piece."""


class SseLineFixTransport(httpx2.AsyncBaseTransport):
    """Owns the transport that it is given."""

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
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = b""
        async for piece in self._stream:
            whole = held + piece
            begun = _PARTIAL_SEPARATOR.search(whole, max(0, len(whole) - 2))
            held = begun[0] if begun else b""
            yield _SEPARATOR.sub(lambda sign: _ESCAPES[sign[0]], whole[: len(whole) - len(held)])
        if held:
            yield held

    async def aclose(self) -> None:
        await self._stream.aclose()
