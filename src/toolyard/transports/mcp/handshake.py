"""Who meets the client first on stdio: the handshake and what follows it, answered before the SDK is loaded.

Loading the SDK takes longer than everything else that starts, and who only lists and calls tools does not need it.
The Front answers what is plainly right itself: `initialize`, `ping`, `server/discover`, the lists of tools and
resources; it hears notifications, and lets the lane take calls. The first line that it does not know is the SDK's,
and so is the state of the connection from then on: what was answered here is told to it again (`hand_over`), under
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
from toolyard.core.calls import Asker, Call, Progress, Result, ask_nobody
from toolyard.core.errors import ToolyardError
from toolyard.tools.resources import LIST_RESOURCES
from toolyard.transports.json_encoding import line_of, resources_json, templates_json
from toolyard.transports.mcp.client_quirks import wants_structured
from toolyard.transports.mcp.error_results import result_of_failure
from toolyard.transports.mcp.fast_path import Lane, LaneClient
from toolyard.transports.mcp.line_writer import LineWriter
from toolyard.transports.mcp.message_parser import (
    Introduction,
    Notice,
    Request,
    has_no_parameters,
    introduction_in,
    introduction_in_meta,
    is_about_a_page,
    plain_message,
)
from toolyard.transports.mcp.server_info import Greeting

_RESOURCES_CHANGED = "notifications/resources/list_changed"
_TOOLS_CHANGED = "notifications/tools/list_changed"
_LONGEST = 1 << 14  # nothing that is answered here is as long
_SECRET_BYTES = 8  # so that no client calls a request of its own by the same id


class _Era(Enum):
    UNKNOWN = "nobody has said anything"
    HANDSHAKE = "initialize was answered"
    MODERN = "a request with the envelope of 2026-07-28 was answered"
    SDK = "the SDK alone knows"


@dataclass(slots=True)
class _Heard:
    """What the SDK has to be told when it takes over."""

    opening: Request | None = None
    initialized: bool = False


@dataclass(frozen=True, slots=True)
class Doors:
    """Where the Front passes things on: the lane, the writer, and the SDK where a question has to be put."""

    writer: LineWriter
    lane: Lane
    ask: Asker
    need_sdk: Callable[[], None]


class Front:
    def __init__(self, yard: Yard, surface: str, doors: Doors) -> None:
        self._yard = yard
        self._surface = surface
        self._doors = doors
        self._greeting = Greeting(yard)
        self._era = _Era.UNKNOWN
        self._heard = _Heard()
        self._structured = True
        self._ask: Asker = ask_nobody
        self._is_alone = True
        self._replayed = tuple(f"replay-{number}-{os.urandom(_SECRET_BYTES).hex()}" for number in range(2))

    def take(self, line: bytes) -> bool:
        """Answer the line, if there is nothing about it that the SDK should look at."""
        if not line.strip() or self._doors.lane.take(line):
            return True
        message = plain_message(line) if self._era is not _Era.SDK and len(line) <= _LONGEST else None
        if self._answered(message):
            return True
        if self._era is _Era.UNKNOWN or _may_introduce(line):
            self._era = _Era.SDK
            self._doors.lane.shut()  # the SDK opens it again for whom it finds there
        return False

    def cancel(self, request: object) -> None:
        self._doors.lane.cancel(request)

    async def tell_published(self) -> None:
        """Another agent has published."""
        await self._notify(_RESOURCES_CHANGED)

    async def tell_tools_changed(self) -> None:
        await self._notify(_TOOLS_CHANGED)

    async def _notify(self, method: str) -> None:
        """Once the SDK is there, it tells the client."""
        if self._is_alone and self._era is _Era.HANDSHAKE and self._heard.initialized:
            await self._doors.writer.send_line(line_of({"jsonrpc": "2.0", "method": method}))

    def hand_over(self) -> list[dict[str, Any]]:
        """What the SDK has missed. From here on it hears every notification, and every first request."""
        self._is_alone = False
        opening = self._heard.opening
        if opening is None:
            self._era = _Era.SDK
            return []
        again, ready = self._replayed
        missed: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": again, "method": opening.method, "params": opening.params}
        ]
        if opening.method != "initialize":
            return missed
        if self._heard.initialized:
            missed.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return [*missed, {"jsonrpc": "2.0", "id": ready, "method": "ping"}]

    def is_replayed(self, request: object) -> bool:
        """Whether a response is to something that the client was answered before."""
        return request in self._replayed

    def _answered(self, message: Request | Notice | None) -> bool:
        if message is None:
            return False
        if isinstance(message, Notice):
            return self._noticed(message)
        if not self._doors.lane.has_room(message.id):
            return False
        if self._era is _Era.HANDSHAKE and message.method == LIST_RESOURCES and is_about_a_page(message.params):
            self._doors.lane.run(message.id, self._resources(message.params.get("cursor", "")))
            return True
        answer = self._answer(message)
        if answer is None:
            return False
        self._doors.lane.say(message.id, {"result": answer})
        return True

    def _noticed(self, notice: Notice) -> bool:
        if self._era is _Era.UNKNOWN or not self._is_alone:
            return False
        if notice.method == "notifications/initialized":
            if notice.params:
                return False
            self._heard.initialized = True
        elif notice.method == "notifications/cancelled":
            request = notice.params.get("requestId")
            self._doors.writer.settle(request)
            self._doors.lane.cancel(request)
        return True  # no other means anything to this server

    def _answer(self, request: Request) -> dict[str, Any] | None:
        if request.method == "initialize":
            return self._introduced(request) if self._era is _Era.UNKNOWN else None
        if self._era is _Era.HANDSHAKE and has_no_parameters(request.params):
            return self._known(request.method)
        if self._era in {_Era.UNKNOWN, _Era.MODERN}:
            client = introduction_in_meta(request.params)
            if client is not None:
                return self._modern(request, client)
        return None

    def _known(self, method: str) -> dict[str, Any] | None:
        if method == "ping":
            return {}
        if method == "tools/list":
            return self._listed(structured=self._structured, modern=False)
        if method == "resources/templates/list":
            return templates_json(self._yard)
        return None

    async def _resources(self, after: str) -> dict[str, Any]:
        call = Call(LIST_RESOURCES, {"after": after}, self._surface, self._yard.agent, self._yard.session)
        result = await self._yard.dispatch(replace(call, ask=self._ask, hidden=True))
        return {"result": resources_json(result)}

    def _introduced(self, request: Request) -> dict[str, Any] | None:
        client = introduction_in(request.params)
        if client is None:
            return None
        self._era = _Era.HANDSHAKE
        self._heard.opening = request
        self._structured = wants_structured(client.name)
        self._ask = self._doors.ask if client.can_be_asked else ask_nobody
        self._doors.lane.open(lane_client(self._yard, self._surface, self._ask, structured=self._structured))
        return self._greeting.initialized(client.version)

    def _modern(self, request: Request, client: Introduction) -> dict[str, Any] | None:
        if request.method == "server/discover":
            answer: dict[str, Any] | None = self._greeting.discovered()
        elif request.method == "tools/list":
            answer = self._listed(structured=wants_structured(client.name), modern=True)
        else:
            return None
        if answer is not None and self._era is _Era.UNKNOWN:
            self._era = _Era.MODERN
            self._heard.opening = request
            self._doors.need_sdk()  # calls of this era are its own
        return answer

    def _listed(self, *, structured: bool, modern: bool) -> dict[str, Any] | None:
        listed = self._greeting.listed(structured=structured, modern=modern)
        if listed is not None:
            # Who asks for the tools will soon use them, but gets them first.
            asyncio.get_running_loop().call_soon(self._yard.warm_up)
        return listed


def _may_introduce(line: bytes) -> bool:
    """Whether the SDK may see a second handshake in it."""
    return b'"initialize"' in line or b"\\u" in line


def lane_client(yard: Yard, surface: str, ask: Asker, *, structured: bool) -> LaneClient:
    """How tools are run for the one client of a connection."""

    def call(tool: str, arguments: dict[str, Any]) -> Call:
        return Call(tool, arguments, surface, yard.agent, yard.session)

    def now(tool: str, arguments: dict[str, Any]) -> Result | None:
        try:
            return yard.dispatch.now(call(tool, arguments))
        except ToolyardError as error:
            return result_of_failure(error, yard.options.error_form)

    async def run(tool: str, arguments: dict[str, Any], progress: Progress) -> Result:
        try:
            return await yard.dispatch(replace(call(tool, arguments), ask=ask, progress=progress))
        except ToolyardError as error:
            return result_of_failure(error, yard.options.error_form)

    return LaneClient(now, run, structured=structured)
