"""Sends activity of the workspace as MCP log messages (`notifications/message`) to clients that ask for them.

With a handshake protocol a client sends `logging/setLevel` and gets the activity of all sessions of this server. With
2026-07-28 a request sets a level in its `_meta` and gets the activity of its call before its answer. Messages that a
client reads too slowly are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, get_args

from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp_types import (
    EmptyResult,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    RequestId,
    SetLevelRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard.app.activity import Activity, ActivityEvent

_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
"""The least severe first."""
_DROPPED_LOGGER = "toolyard"
"""Logger of the message that counts the dropped ones."""
_MAX_CLIENTS = 256
_MAX_WAITING = 1_000
_MAX_OF_A_CALL = 1_000
_SEND_SECONDS = 5.0

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class _Client:
    session: ServerSession
    levels: frozenset[LoggingLevel]


class LogMessages:
    """Log messages for all clients of one server."""

    def __init__(self, activity: Activity, session_of: Callable[[Context], str]) -> None:
        """`session_of` names the connection of a request."""
        self._activity = activity
        self._session_of = session_of
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clients: dict[str, _Client] = {}
        self._call_buffers: dict[str, deque[ActivityEvent]] = {}
        self._waiting: deque[ActivityEvent] = deque()
        self._dropped = 0
        self._send_task: asyncio.Task[None] | None = None

    def attach(self, server: Server[Any]) -> None:
        """Registers the request handler."""
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self.set_level)

    async def set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._start()
        name = self._session_of(context)
        self._clients.pop(name, None)
        if len(self._clients) >= _MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        self._clients[name] = _Client(context.session, frozenset(_LEVELS[_LEVELS.index(params.level) :]))
        return EmptyResult()

    @contextlib.asynccontextmanager
    async def for_request(self, context: Context, call: str) -> AsyncGenerator[None]:
        """Wraps a call of protocol 2026-07-28: sends its activity before the answer if the client asked for it."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            yield
            return
        levels = allowed_log_levels(context.protocol_version, context.meta)
        if not levels:
            yield
            return
        self._start()
        occurred = self._call_buffers[call] = deque(maxlen=_MAX_OF_A_CALL)
        try:
            yield
        finally:
            del self._call_buffers[call]
            await _send_all(_Client(context.session, levels), occurred, context.request_id)

    def _start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._activity.add_listener(self._on_occurrence)

    def _on_occurrence(self, occurrence: ActivityEvent) -> None:
        """Handles activity from any thread."""
        of_call = self._call_buffers.get(occurrence.call)
        if of_call is not None:
            of_call.append(occurrence)
        if self._clients and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop and all connections are closed
                self._loop.call_soon_threadsafe(self._queue, occurrence)

    def _queue(self, occurrence: ActivityEvent) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            self._dropped += 1
            return
        self._waiting.append(occurrence)
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.get_running_loop().create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        while self._waiting:
            occurrence = self._waiting.popleft()
            dropped, self._dropped = (0, self._dropped) if self._waiting else (self._dropped, 0)
            for name, client in list(self._clients.items()):
                is_sent = await _send_all(client, [occurrence])
                if dropped and is_sent:
                    data = {"event": "dropped", "count": dropped}
                    is_sent = await _send(client.session, "warning", _DROPPED_LOGGER, data)
                if not is_sent:
                    self._clients.pop(name, None)


async def _send_all(
    client: _Client, occurred: list[ActivityEvent] | deque[ActivityEvent], request: RequestId | None = None
) -> bool:
    for each in occurred:
        if each.severity.value in client.levels and not await _send(
            client.session, each.severity.value, each.logger.value, each.data, request
        ):
            return False
    return True


async def _send(
    session: ServerSession, level: LoggingLevel, logger: str, data: dict[str, Any], request: RequestId | None = None
) -> bool:
    """Returns whether it was sent. A client that does not read gets no more."""
    params = LoggingMessageNotificationParams(level=level, logger=logger, data=data)
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            await session.send_notification(LoggingMessageNotification(params=params), request)
    except Exception:  # noqa: BLE001 - a closed connection may raise anything
        return False
    return True
