"""Streams a running call as JSON lines.

`StreamedCalls` owns the task of each call: it ends when it is done, when the client disconnects, or when the server
closes, and is always awaited, so that its one audit event is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Receive, Send

from toolyard.core.calls import Result
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.transports.http.event_stream import EventStream
from toolyard.transports.http.serializers import error_line, result_line
from toolyard.transports.json_encoding import encode_json

MEDIA_TYPE = "application/x-ndjson"
_HEADERS = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),  # otherwise nginx buffers the lines until the end
]
_CLOSING = "The call was cancelled: the server is shutting down."
_LAST_SECONDS = 1.0  # for a client to read the last line when the server closes

RunCall = Callable[[EventStream], Awaitable[Result]]


class StreamedCalls:
    """The running calls of the HTTP API."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[Result]] = set()

    @property
    def count(self) -> int:
        return len(self._calls)

    async def close(self) -> None:
        """Cancels the running calls. Their clients get an error line."""
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def stream_answer(self, work: RunCall, receive: Receive, send: Send) -> None:
        """Runs a call and streams its lines to the client."""
        events = EventStream()
        call = asyncio.ensure_future(_run(work, events))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        call.add_done_callback(lambda _: events.close())
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        disconnect.add_done_callback(lambda _: call.cancel())
        is_closing = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async for line in events.lines():
                await send(_body_message(line, more=True))
        except asyncio.CancelledError:  # the server is closing: send the last line, then end
            is_closing = True
        finally:
            disconnect.cancel()
            call.cancel()  # does nothing if it is done
            await asyncio.gather(call, disconnect, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS if is_closing else None):
                await send(_body_message(_last_line(call), more=False))


async def _run(work: RunCall, events: EventStream) -> Result:
    return await work(events)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _last_line(call: asyncio.Task[Result]) -> dict[str, Any]:
    if call.cancelled():  # if the client disconnected, nothing reads this
        return error_line(SystemFault(_CLOSING, hint="Try again later.", retryable=True))
    error = call.exception()
    if isinstance(error, ToolyardError):
        return error_line(error)
    return result_line(call.result())


def _body_message(line: dict[str, Any], *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": encode_json(line) + b"\n", "more_body": more}
