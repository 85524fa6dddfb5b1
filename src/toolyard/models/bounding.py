"""No answer is larger than any model gives: what is more is an error, before it fills the memory of everybody.

SDKs read errors whole, and lines until they end; so the bytes are counted where they arrive. What comes compressed,
although nobody asked for that, may be a thousand times as large as it looks, and is given less room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

LARGEST: Final = 64 * 1024 * 1024
"""Bytes. The longest answers, with a few hundred bytes of wrapping for each token."""
LARGEST_PACKED: Final = 256 * 1024
LONGEST_LINE: Final = 4 * 1024 * 1024
NOT_PACKED: Final = {"accept-encoding": "identity"}
"""What a client has to ask for."""


class TooMuch(httpx2.ReadError):
    """More than an answer can be."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Owns the transport that it is given."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        is_packed = response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, LARGEST_PACKED if is_packed else LARGEST)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = 0
        async for piece in self._stream:
            self._left -= len(piece)
            ended = piece.rfind(b"\n")
            line = len(piece) - ended - 1 if ended >= 0 else line + len(piece)
            if self._left < 0 or line > LONGEST_LINE:
                raise TooMuch("the answer is larger than any model's")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
