"""The fast path of stdio: a plain tool call goes directly to dispatch, bypassing the SDK's message loop.

Nearly all traffic is `tools/call` after the handshake, and the SDK's streams, tasks and models cost more than the
call. Any call that is not plain goes to the SDK. The fast path opens once the client is known, and keeps the SDK's
guarantees: one answer per request, none after a cancellation, progress only if requested.

A FastPath owns the tasks of its answers; `close()` cancels and awaits them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio

from toolyard.app.yard import Yard
from toolyard.core.calls import ApprovalCallback, Call, ProgressCallback, Result, ignore_progress
from toolyard.core.errors import ToolyardError
from toolyard.core.json_size import loads_unique
from toolyard.transports.json_encoding import CONNECTION_CLOSED, INTERNAL_ERROR, encode_json, error_json, result_json
from toolyard.transports.mcp.error_results import result_of_failure
from toolyard.transports.mcp.stdio import LineWriter

PLAIN_PARAMETERS = frozenset({"name", "arguments", "_meta"})
_METHOD = b'"tools/call"'
_REQUEST_MEMBERS = frozenset({"jsonrpc", "id", "method", "params"})
_MAX_AT_ONCE = 1_000  # beyond that the SDK applies backpressure
_LAST_SECONDS = 1.0  # for the client to read its last answers


@dataclass(frozen=True, slots=True)
class FastPathClient:
    """How to run tools for the client, and whether it gets structured content.

    `try_run_inline` runs a quick call immediately and returns None for any other.
    """

    try_run_inline: Callable[[str, dict[str, Any]], Result | None]
    run: Callable[[str, dict[str, Any], ProgressCallback], Awaitable[Result]]
    structured: bool


def fast_path_client(yard: Yard, surface: str, ask: ApprovalCallback, *, structured: bool) -> FastPathClient:
    """Returns how tools run for the client of a connection."""

    def call(tool: str, arguments: dict[str, Any]) -> Call:
        return Call(tool, arguments, surface, yard.agent, yard.session)

    def try_run_inline(tool: str, arguments: dict[str, Any]) -> Result | None:
        try:
            return yard.dispatch.try_run_inline(call(tool, arguments))
        except ToolyardError as error:
            return result_of_failure(error, yard.options.error_form)

    async def run(tool: str, arguments: dict[str, Any], progress: ProgressCallback) -> Result:
        try:
            return await yard.dispatch(replace(call(tool, arguments), ask=ask, progress=progress))
        except ToolyardError as error:
            return result_of_failure(error, yard.options.error_form)

    return FastPathClient(try_run_inline, run, structured=structured)


@dataclass(frozen=True, slots=True)
class _Request:
    id: int | str
    tool: str
    arguments: dict[str, Any]
    token: int | str | None


class FastPath:
    """Answers plain requests of one stdio connection."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._client: FastPathClient | None = None
        self._tasks: dict[int | str, asyncio.Task[None]] = {}
        self._cancelled: set[int | str] = set()
        self._closing = False

    def open(self, client: FastPathClient) -> None:
        """Starts taking calls of this client."""
        self._client = client

    def suspend(self) -> None:
        """Stops taking calls until it is opened again."""
        self._client = None

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def has_room(self, request: int | str) -> bool:
        """Whether a request with this id may be answered here."""
        return request not in self._tasks and len(self._tasks) < _MAX_AT_ONCE

    def take(self, line: bytes) -> bool:
        """Starts the call in `line`, and returns True, if it is a plain one."""
        client = self._client
        if client is None or _METHOD not in line:
            return False
        request = _plain_request(line)
        if request is None or not self.has_room(request.id):
            return False
        try:
            result = client.try_run_inline(request.tool, request.arguments)
        except Exception as error:  # noqa: BLE001 - raising would lose the lines after this one
            self.send_answer(request.id, _error_answer(error))
        else:
            if result is not None:
                self.send_answer(request.id, {"result": result_json(result, structured=client.structured)})
            else:
                self.run_answer(request.id, self._call_tool(request, client))
        return True

    def send_answer(self, request: int | str, answer: dict[str, Any]) -> None:
        """Sends an answer immediately, or when the client reads again."""
        self._writer.mark_pending(request)
        if self._writer.send_now(_response(request, answer)):
            self._writer.mark_answered(request)
        else:
            self._start_task(request, self._writer.flush())

    def run_answer(self, request: int | str, answering: Coroutine[Any, Any, dict[str, Any]]) -> None:
        """Sends what `answering` returns, in a task of its own."""
        self._writer.mark_pending(request)
        self._start_task(request, self._send_result(request, answering))

    def cancel(self, request: object) -> None:
        """Cancels a request: the client does not want its answer."""
        task = self._tasks.get(request) if isinstance(request, int | str) else None
        if task is not None:
            self._cancelled.add(cast("int | str", request))
            # A task cancelled before its first step never runs, and its call would not be recorded.
            asyncio.get_running_loop().call_soon(task.cancel)

    async def close(self) -> None:
        self._closing = True
        await asyncio.sleep(0)  # lets taken calls start, so that they are recorded
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        # a client that does not read cannot block the shutdown
        with contextlib.suppress(TimeoutError, anyio.BrokenResourceError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._writer.flush()

    def _start_task(self, request: int | str, sending: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        self._tasks[request] = loop.create_task(self._deliver(request, sending))

    async def _send_result(self, request: int | str, answering: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            answer = await answering
        except Exception as error:  # noqa: BLE001 - the client waits for an answer in any case
            answer = _error_answer(error)
        except asyncio.CancelledError:
            # Cancelled by the client or by our shutdown; only the latter needs an answer.
            answer = {"error": {"code": CONNECTION_CLOSED, "message": "The server is stopping."}}
        if request in self._cancelled:
            return
        if not self._writer.send_now(_response(request, answer)) and not self._closing:
            await self._writer.flush()

    async def _deliver(self, request: int | str, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        except anyio.BrokenResourceError:
            pass  # the client is gone; the reader stops the server
        finally:
            self._cancelled.discard(request)
            del self._tasks[request]
            self._writer.mark_answered(request)

    async def _call_tool(self, request: _Request, client: FastPathClient) -> dict[str, Any]:
        result = await client.run(request.tool, request.arguments, self._progress(request))
        return {"result": result_json(result, structured=client.structured)}

    def _progress(self, request: _Request) -> ProgressCallback:
        token = request.token
        if token is None:
            return ignore_progress

        async def report(done: float, total: float | None, message: str) -> None:
            params: dict[str, Any] = {"progressToken": token, "progress": done, "message": message}
            if total is not None:
                params["total"] = total
            await self._writer.send_line(
                encode_json({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            )

        return report


def _response(request: int | str, answer: dict[str, Any]) -> bytes:
    return encode_json({"jsonrpc": "2.0", "id": request, **answer})


def _error_answer(error: Exception) -> dict[str, Any]:
    if isinstance(error, ToolyardError):
        return {"error": error_json(error)}
    return {"error": {"code": INTERNAL_ERROR, "message": f"Toolyard failed ({type(error).__name__})."}}


def _plain_request(line: bytes) -> _Request | None:
    """Returns the call in a line; None if it needs the SDK."""
    try:
        raw = loads_unique(line)
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
        # Anything else, such as the envelope of 2026-07-28, needs the SDK.
        if not isinstance(meta, dict) or meta.keys() - {"progressToken"}:
            return None
        token = cast("dict[str, Any]", meta).get("progressToken")
        if type(token) not in {int, str}:
            return None
    return _Request(request, tool, cast("dict[str, Any]", arguments), token)
