"""The fast lane of stdio: a plain tool call goes from its line to dispatch and back, past the SDK's message loop.

Nearly all traffic is `tools/call` on a connection that has shaken hands; the SDK's streams, tasks and models cost
more than such a call itself. The SDK keeps everything else: the handshake, the other methods, the 2026-07-28 era, and
any call that is not plainly right. The lane opens when the SDK has served the first list or call of tools after the
handshake, and keeps the SDK's promises: one answer a request, none after the client cancelled it, progress only when
asked for.

A Lane owns the tasks of its calls; `close()` cancels them and waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR
from pydantic_core import PydanticSerializationError, to_json

from toolyard.core.calls import Progress, Result, no_progress
from toolyard.serve.mcp.line_writer import LineWriter
from toolyard.serve.mcp.quick import PLAIN_PARAMETERS, plain_answer

_METHOD = b'"tools/call"'
_REQUEST_MEMBERS = frozenset({"jsonrpc", "id", "method", "params"})
_MOST_AT_ONCE = 1_000  # beyond that the SDK's own way holds the reader back
_LAST_SECONDS = 1.0  # for the client to read its last answers


@dataclass(frozen=True, slots=True)
class LaneClient:
    """Who is served: how to run a tool for it, and whether it gets the structured half of results.

    `now` runs a quick call at once and gives None for any other; both raise MCPError for what failed.
    """

    now: Callable[[str, dict[str, Any]], Result | None]
    run: Callable[[str, dict[str, Any], Progress], Awaitable[Result]]
    structured: bool


@dataclass(frozen=True, slots=True)
class _Request:
    id: int | str
    tool: str
    arguments: dict[str, Any]
    token: int | str | None


class Lane:
    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._client: LaneClient | None = None
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._cancelled: set[int | str] = set()
        self._closing = False

    def open(self, client: LaneClient) -> None:
        self._client = client

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def take(self, line: bytes) -> bool:
        """Start the call in `line`, if it is one for this lane."""
        if self._client is None or _METHOD not in line or len(self._tasks) >= _MOST_AT_ONCE:
            return False
        request = _plain_request(line)
        if request is None or request.id in self._tasks:
            return False
        self._writer.owe(request.id)
        loop = asyncio.get_running_loop()
        try:
            result = self._client.now(request.tool, request.arguments)
        except Exception as error:  # noqa: BLE001 - raised any further it would take the lines after it along
            answer = _failed(error)
        else:
            if result is None:
                self._tasks[request.id] = loop.create_task(
                    self._deliver(request, self._answered(request, self._client))
                )
                return True
            answer = {"result": plain_answer(result, structured=self._client.structured)}
        line = _line({"jsonrpc": "2.0", "id": request.id, **answer})
        if self._writer.send_now(line):
            self._writer.settle(request.id)
        else:
            self._tasks[request.id] = loop.create_task(self._deliver(request, self._writer.flush()))
        return True

    def cancel(self, request: object) -> None:
        """The client wants no answer any more."""
        task = self._tasks.get(request) if isinstance(request, int | str) else None
        if task is not None:
            self._cancelled.add(cast("int | str", request))
            # A task cancelled before its first step never runs at all, and its call would not be recorded.
            asyncio.get_running_loop().call_soon(task.cancel)

    async def close(self) -> None:
        self._closing = True
        await asyncio.sleep(0)  # what was taken has begun, and is recorded
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with contextlib.suppress(TimeoutError, anyio.BrokenResourceError):  # who does not read does not keep us
            async with asyncio.timeout(_LAST_SECONDS):
                await self._writer.flush()

    async def _answered(self, request: _Request, client: LaneClient) -> None:
        answer = await self._answer(request, client)
        if request.id in self._cancelled:
            return
        if not self._writer.send_now(_line({"jsonrpc": "2.0", "id": request.id, **answer})) and not self._closing:
            await self._writer.flush()

    async def _deliver(self, request: _Request, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        except anyio.BrokenResourceError:
            pass  # nobody is there to read it; the reader ends the server
        finally:
            self._cancelled.discard(request.id)
            del self._tasks[request.id]
            self._writer.settle(request.id)

    async def _answer(self, request: _Request, client: LaneClient) -> dict[str, Any]:
        try:
            result = await client.run(request.tool, request.arguments, self._progress(request))
        except Exception as error:  # noqa: BLE001 - the client waits for an answer, whatever happened to us
            return _failed(error)
        except asyncio.CancelledError:
            # Cancelled by the client or by our own end; only the latter still owes an answer.
            return {"error": {"code": CONNECTION_CLOSED, "message": "The server is stopping."}}
        return {"result": plain_answer(result, structured=client.structured)}

    def _progress(self, request: _Request) -> Progress:
        token = request.token
        if token is None:
            return no_progress

        async def report(done: float, total: float | None, message: str) -> None:
            params: dict[str, Any] = {"progressToken": token, "progress": done, "message": message}
            if total is not None:
                params["total"] = total
            await self._writer.send_line(
                _line({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            )

        return report


def _failed(error: Exception) -> dict[str, Any]:
    if not isinstance(error, MCPError):
        return {"error": {"code": INTERNAL_ERROR, "message": f"Toolyard failed ({type(error).__name__})."}}
    return {"error": {"code": error.error.code, "message": error.error.message, "data": error.error.data}}


def _line(message: dict[str, Any]) -> bytes:
    try:
        return to_json(message)
    except (PydanticSerializationError, UnicodeEncodeError):  # text that is not Unicode: JSON can escape it
        return json.dumps(message).encode()


def _plain_request(line: bytes) -> _Request | None:
    """The call in a line, when there is nothing about it that the SDK should look at."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    message = cast("dict[str, Any]", raw)
    request, params = message.get("id"), message.get("params")
    if message.keys() != _REQUEST_MEMBERS or message["jsonrpc"] != "2.0" or message["method"] != "tools/call":
        return None
    if not isinstance(request, int | str) or isinstance(request, bool) or not isinstance(params, dict):
        return None
    return _plain_call(request, cast("dict[str, Any]", params))


def _plain_call(request: int | str, params: dict[str, Any]) -> _Request | None:
    tool, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
    if not PLAIN_PARAMETERS.issuperset(params) or not isinstance(tool, str) or not isinstance(arguments, dict):
        return None
    token = None
    if meta is not None:
        # Anything else in there, such as the envelope of the later protocol, is the SDK's business.
        if not isinstance(meta, dict) or meta.keys() - {"progressToken"}:
            return None
        token = cast("dict[str, Any]", meta).get("progressToken")
        if type(token) not in {int, str}:
            return None
    return _Request(request, tool, cast("dict[str, Any]", arguments), token)
