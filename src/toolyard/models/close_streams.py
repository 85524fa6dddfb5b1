"""Whoever leaves a turn hangs up: no answer goes on arriving, and being paid for, that nobody reads.

The SDKs leave that to the collector of garbage where a stream was not read to its end. So what a turn was sent is
noted where it arrives, and closed when the turn is over, however it ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx2

_OPEN_STREAMS: ContextVar[list[httpx2.AsyncByteStream] | None] = ContextVar("arriving", default=None)


@asynccontextmanager
async def closing_open_streams() -> AsyncGenerator[None]:
    """Closes, at the end, what was asked for inside."""
    streams: list[httpx2.AsyncByteStream] = []
    token = _OPEN_STREAMS.set(streams)
    try:
        yield
    finally:
        _OPEN_STREAMS.reset(token)
        for stream in streams:
            await stream.aclose()


class StreamTrackingTransport(httpx2.AsyncBaseTransport):
    """Owns the transport that it is given."""

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
