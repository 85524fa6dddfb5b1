"""One call, answered with JSON lines while it runs.

The call is a task of its own, which `StreamedCalls` owns: it ends when it is done, when the caller goes away, or when the
door closes, and in each case it is waited for, so that its one event says what became of it.
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
    (b"x-accel-buffering", b"no"),  # else nginx gathers the lines until the call is over
]
_CLOSING = "The call was broken off: the server is closing."
_LAST_SECONDS = 1.0  # for a caller to take the last line from a server that closes

RunCall = Callable[[EventStream], Awaitable[Result]]


class StreamedCalls:
    def __init__(self) -> None:
        self._calls: set[asyncio.Task[Result]] = set()

    @property
    def count(self) -> int:
        return len(self._calls)

    async def close(self) -> None:
        """End what is under way. Its callers are told."""
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def stream_answer(self, work: RunCall, receive: Receive, send: Send) -> None:
        outbox = EventStream()
        call = asyncio.ensure_future(_run(work, outbox))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        call.add_done_callback(lambda _: outbox.close())
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        leaving.add_done_callback(lambda _: call.cancel())
        is_closing = False
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async for line in outbox.lines():
                await send(_body_message(line, more=True))
        except asyncio.CancelledError:  # the server is closing: its caller is told, and this ends
            is_closing = True
        finally:
            leaving.cancel()
            call.cancel()  # nothing, when it is done
            await asyncio.gather(call, leaving, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS if is_closing else None):
                await send(_body_message(_last_line(call), more=False))


async def _run(work: RunCall, outbox: EventStream) -> Result:
    return await work(outbox)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _last_line(call: asyncio.Task[Result]) -> dict[str, Any]:
    if call.cancelled():  # where the caller left, nobody reads this
        return error_line(SystemFault(_CLOSING, hint="Try again later.", retryable=True))
    error = call.exception()
    if isinstance(error, ToolyardError):
        return error_line(error)
    return result_line(call.result())


def _body_message(line: dict[str, Any], *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": encode_json(line) + b"\n", "more_body": more}
