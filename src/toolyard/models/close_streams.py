"""Closes every HTTP stream of a turn when the turn ends, so that no unread answer keeps arriving at a cost.

The SDKs leave a stream that was not read to its end to the garbage collector. The transport here records each
response stream of a turn, and `closing_open_streams` closes them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx2

_OPEN_STREAMS: ContextVar[list[httpx2.AsyncByteStream] | None] = ContextVar("arriving", default=None)


@asynccontextmanager
async def closing_open_streams() -> AsyncGenerator[None]:
    """Closes, on exit, all response streams that were opened inside the block."""
    streams: list[httpx2.AsyncByteStream] = []
    token = _OPEN_STREAMS.set(streams)
    try:
        yield
    finally:
        _OPEN_STREAMS.reset(token)
        for stream in streams:
            await stream.aclose()


class StreamTrackingTransport(httpx2.AsyncBaseTransport):
    """Records the stream of each response. Owns the inner transport."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        streams = _OPEN_STREAMS.get()
        if streams is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            streams.append(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
