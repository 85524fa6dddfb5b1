"""Who meets the client first on stdio: the handshake and what follows it, answered before the SDK is loaded.

Loading the SDK takes longer than everything else that starts, and who only lists and calls tools does not need it.
The Front answers what is plainly right itself: `initialize`, `ping`, `server/discover`, the lists of tools and
resources; it hears notifications, and lets the lane take calls. The first line that it does not know is the SDK's,
and so is the state of the connection from then on: what was answered here is told to it again (`replay_for_sdk`), under
ids of our own whose answers nobody gets.

Once the SDK has a say in who the client is, because the first request was not plain or the client introduces itself
again, the Front takes nothing more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from toolyard.app.yard import Yard
from toolyard.core.calls import ApprovalCallback, Call, ProgressCallback, Result, deny_without_asking
from toolyard.core.errors import ToolyardError
from toolyard.tools.resources import LIST_RESOURCES
from toolyard.transports.json_encoding import encode_json, resources_json, templates_json
from toolyard.transports.mcp.client_quirks import wants_structured
from toolyard.transports.mcp.error_results import result_of_failure
from toolyard.transports.mcp.fast_path import FastPath, FastPathClient
from toolyard.transports.mcp.line_writer import LineWriter
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

_RESOURCES_CHANGED = "notifications/resources/list_changed"
_TOOLS_CHANGED = "notifications/tools/list_changed"
_MAX_LINE_BYTES = 1 << 14  # nothing that is answered here is as long
_SECRET_BYTES = 8  # so that no client calls a request of its own by the same id


class _ProtocolVersion(Enum):
    UNKNOWN = "nobody has said anything"
    LEGACY = "initialize was answered"
    MODERN = "a request with the envelope of 2026-07-28 was answered"
    SDK = "the SDK alone knows"


@dataclass(slots=True)
class _ReplayState:
    """What the SDK has to be told when it takes over."""

    first_request: PlainRequest | None = None
    initialized: bool = False


@dataclass(frozen=True, slots=True)
class Handlers:
    """Where the Front passes things on: the lane, the writer, and the SDK where a question has to be put."""

    writer: LineWriter
    fast_path: FastPath
    ask: ApprovalCallback
    load_sdk: Callable[[], None]


class HandshakeServer:
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
        """Answer the line, if there is nothing about it that the SDK should look at."""
        if not line.strip() or self._handlers.fast_path.take(line):
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
            self._handlers.fast_path.suspend()  # the SDK opens it again for whom it finds there
        return False

    def cancel(self, request: object) -> None:
        self._handlers.fast_path.cancel(request)

    async def notify_published(self) -> None:
        """Another agent has published."""
        await self._notify(_RESOURCES_CHANGED)

    async def notify_tools_changed(self) -> None:
        await self._notify(_TOOLS_CHANGED)

    async def _notify(self, method: str) -> None:
        """Once the SDK is there, it tells the client."""
        if self._serves_alone and self._protocol is _ProtocolVersion.LEGACY and self._replay.initialized:
            await self._handlers.writer.send_line(encode_json({"jsonrpc": "2.0", "method": method}))

    def replay_for_sdk(self) -> list[dict[str, Any]]:
        """What the SDK has missed. From here on it hears every notification, and every first request."""
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
        """Whether a response is to something that the client was answered before."""
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
        return True  # no other means anything to this server

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
            self._handlers.load_sdk()  # calls of this era are its own
        return answer

    def _list_tools(self, *, structured: bool, modern: bool) -> dict[str, Any] | None:
        listed = self._description.tools_list_result(structured=structured, modern=modern)
        if listed is not None:
            # Who asks for the tools will soon use them, but gets them first.
            asyncio.get_running_loop().call_soon(self._yard.warm_up)
        return listed


def _may_reinitialize(line: bytes) -> bool:
    """Whether the SDK may see a second handshake in it."""
    return b'"initialize"' in line or b"\\u" in line


def fast_path_client(yard: Yard, surface: str, ask: ApprovalCallback, *, structured: bool) -> FastPathClient:
    """How tools are run for the one client of a connection."""

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
