"""Answers the handshake and simple requests on stdio before the SDK is loaded.

Loading the SDK takes longer than the rest of the start, and clients that only list and call tools do not need it. The
HandshakeServer itself answers plain requests: `initialize`, `ping`, `server/discover`, and the lists of tools and
resources. It handles notifications, and opens the fast path for calls once it knows the client. The first line that
neither knows goes to the SDK, which owns the connection's state from then on: the earlier requests are replayed to it
(`replay_for_sdk`) under our own ids, and their answers are dropped.

Once the SDK decides who the client is, because the first request was not plain or the client initializes again, the
HandshakeServer takes nothing more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from toolyard.app.yard import Yard
from toolyard.core.calls import ApprovalCallback, Call, deny_without_asking
from toolyard.tools.resources import LIST_RESOURCES
from toolyard.transports.json_encoding import encode_json, resources_json, templates_json
from toolyard.transports.mcp.client_quirks import wants_structured
from toolyard.transports.mcp.fast_path import FastPath, fast_path_client
from toolyard.transports.mcp.message_parser import (
    ClientIntroduction,
    PlainNotification,
    PlainRequest,
    client_from_handshake,
    client_from_meta,
    has_no_parameters,
    has_only_cursor,
    plain_message,
)
from toolyard.transports.mcp.server_info import ServerDescription
from toolyard.transports.mcp.stdio import LineWriter

_RESOURCES_CHANGED = "notifications/resources/list_changed"
_TOOLS_CHANGED = "notifications/tools/list_changed"
_MAX_LINE_BYTES = 1 << 14  # everything that is answered here is shorter
_SECRET_BYTES = 8  # so that no client uses the same id


class _ProtocolVersion(Enum):
    UNKNOWN = "no message yet"
    LEGACY = "initialize was answered"
    MODERN = "a request with the envelope of 2026-07-28 was answered"
    SDK = "the SDK alone knows"


@dataclass(slots=True)
class _ReplayState:
    """What has to be replayed to the SDK."""

    first_request: PlainRequest | None = None
    initialized: bool = False


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the HandshakeServer passes messages to: the writer, the fast path, and the SDK for questions."""

    writer: LineWriter
    fast_path: FastPath
    ask: ApprovalCallback
    load_sdk: Callable[[], None]


class HandshakeServer:
    """Answers plain messages of one stdio connection."""

    def __init__(self, yard: Yard, surface: str, handlers: Handlers) -> None:
        self._yard = yard
        self._surface = surface
        self._handlers = handlers
        self._description = ServerDescription(yard)
        self._protocol = _ProtocolVersion.UNKNOWN
        self._replay = _ReplayState()
        self._structured = True
        self._ask: ApprovalCallback = deny_without_asking
        self._serves_alone = True
        self._replay_ids = tuple(f"replay-{number}-{os.urandom(_SECRET_BYTES).hex()}" for number in range(2))

    def take(self, line: bytes) -> bool:
        """Handles the line, and returns True, if it does not need the SDK."""
        if not line.strip():
            return True
        message = (
            plain_message(line)
            if self._protocol is not _ProtocolVersion.SDK and len(line) <= _MAX_LINE_BYTES
            else None
        )
        if self._try_answer(message):
            return True
        if self._protocol is _ProtocolVersion.UNKNOWN or _may_reinitialize(line):
            self._protocol = _ProtocolVersion.SDK
            self._handlers.fast_path.suspend()  # the SDK opens it again for the client it finds
        return False

    def cancel(self, request: object) -> None:
        """Cancels a request of the fast path."""
        self._handlers.fast_path.cancel(request)

    async def notify_published(self) -> None:
        """Notifies the client that another agent has published."""
        await self._notify(_RESOURCES_CHANGED)

    async def notify_tools_changed(self) -> None:
        """Notifies the client that the tool list has changed."""
        await self._notify(_TOOLS_CHANGED)

    async def _notify(self, method: str) -> None:
        """Sends a notification, unless the SDK is there to send it."""
        if self._serves_alone and self._protocol is _ProtocolVersion.LEGACY and self._replay.initialized:
            await self._handlers.writer.send_line(encode_json({"jsonrpc": "2.0", "method": method}))

    def replay_for_sdk(self) -> list[dict[str, Any]]:
        """Returns the messages to replay. From now on the SDK gets all notifications and unknown requests."""
        self._serves_alone = False
        opening = self._replay.first_request
        if opening is None:
            self._protocol = _ProtocolVersion.SDK
            return []
        again, ready = self._replay_ids
        missed: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": again, "method": opening.method, "params": opening.params}
        ]
        if opening.method != "initialize":
            return missed
        if self._replay.initialized:
            missed.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return [*missed, {"jsonrpc": "2.0", "id": ready, "method": "ping"}]

    def is_replay(self, request: object) -> bool:
        """Whether a response belongs to a replayed request."""
        return request in self._replay_ids

    def _try_answer(self, message: PlainRequest | PlainNotification | None) -> bool:
        if message is None:
            return False
        if isinstance(message, PlainNotification):
            return self._handle_notification(message)
        if not self._handlers.fast_path.has_room(message.id):
            return False
        if (
            self._protocol is _ProtocolVersion.LEGACY
            and message.method == LIST_RESOURCES
            and has_only_cursor(message.params)
        ):
            self._handlers.fast_path.run_answer(message.id, self._list_resources(message.params.get("cursor", "")))
            return True
        answer = self._answer(message)
        if answer is None:
            return False
        self._handlers.fast_path.send_answer(message.id, {"result": answer})
        return True

    def _handle_notification(self, notice: PlainNotification) -> bool:
        if self._protocol is _ProtocolVersion.UNKNOWN or not self._serves_alone:
            return False
        if notice.method == "notifications/initialized":
            if notice.params:
                return False
            self._replay.initialized = True
        elif notice.method == "notifications/cancelled":
            request = notice.params.get("requestId")
            self._handlers.writer.mark_answered(request)
            self._handlers.fast_path.cancel(request)
        return True  # no other notification matters to this server

    def _answer(self, request: PlainRequest) -> dict[str, Any] | None:
        if request.method == "initialize":
            return self._answer_initialize(request) if self._protocol is _ProtocolVersion.UNKNOWN else None
        if self._protocol is _ProtocolVersion.LEGACY and has_no_parameters(request.params):
            return self._answer_legacy(request.method)
        if self._protocol in {_ProtocolVersion.UNKNOWN, _ProtocolVersion.MODERN}:
            client = client_from_meta(request.params)
            if client is not None:
                return self._answer_modern(request, client)
        return None

    def _answer_legacy(self, method: str) -> dict[str, Any] | None:
        if method == "ping":
            return {}
        if method == "tools/list":
            return self._list_tools(structured=self._structured, modern=False)
        if method == "resources/templates/list":
            return templates_json(self._yard)
        return None

    async def _list_resources(self, after: str) -> dict[str, Any]:
        call = Call(LIST_RESOURCES, {"after": after}, self._surface, self._yard.agent, self._yard.session)
        result = await self._yard.dispatch(replace(call, ask=self._ask, hidden=True))
        return {"result": resources_json(result)}

    def _answer_initialize(self, request: PlainRequest) -> dict[str, Any] | None:
        client = client_from_handshake(request.params)
        if client is None:
            return None
        self._protocol = _ProtocolVersion.LEGACY
        self._replay.first_request = request
        self._structured = wants_structured(client.name)
        self._ask = self._handlers.ask if client.supports_elicitation else deny_without_asking
        self._handlers.fast_path.open(
            fast_path_client(self._yard, self._surface, self._ask, structured=self._structured)
        )
        return self._description.initialize_result(client.version)

    def _answer_modern(self, request: PlainRequest, client: ClientIntroduction) -> dict[str, Any] | None:
        if request.method == "server/discover":
            answer: dict[str, Any] | None = self._description.discover_result()
        elif request.method == "tools/list":
            answer = self._list_tools(structured=wants_structured(client.name), modern=True)
        else:
            return None
        if answer is not None and self._protocol is _ProtocolVersion.UNKNOWN:
            self._protocol = _ProtocolVersion.MODERN
            self._replay.first_request = request
            self._handlers.load_sdk()  # calls of this protocol go through the SDK
        return answer

    def _list_tools(self, *, structured: bool, modern: bool) -> dict[str, Any] | None:
        result = self._description.tools_list_result(structured=structured, modern=modern)
        if result is not None:
            # A client that lists the tools will soon use them, but gets the list first.
            asyncio.get_running_loop().call_soon(self._yard.warm_up)
        return result


def _may_reinitialize(line: bytes) -> bool:
    """Whether the line may contain a second handshake."""
    return b'"initialize"' in line or b"\\u" in line
