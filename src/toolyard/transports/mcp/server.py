"""The MCP server of one Yard: lists its tools, runs them through dispatch, offers its files as resources."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard import __version__
from toolyard.app.yard import Yard
from toolyard.core.calls import Asker, Call, Progress, Result
from toolyard.core.errors import ToolyardError
from toolyard.dispatch.tool import Tool
from toolyard.tools.resources import LIST_RESOURCES, READ_RESOURCE
from toolyard.tools.skill_resources import EXTENSION, GET_SKILL, LIST_SKILLS
from toolyard.transports.client_profile import APPROVE, LISTED, TERMS, Terms
from toolyard.transports.json_encoding import resources_json, templates_json
from toolyard.transports.mcp.client_quirks import wants_structured
from toolyard.transports.mcp.elicitation import QuestionPut, asker_for
from toolyard.transports.mcp.error_results import failed_result, result_of_failure
from toolyard.transports.mcp.fast_path import Lane
from toolyard.transports.mcp.fast_path_middleware import QuickCalls
from toolyard.transports.mcp.handshake import lane_client
from toolyard.transports.mcp.log_messages import LogMessages
from toolyard.transports.mcp.publish_watch import Watches
from toolyard.transports.mcp.sdk_encoding import APPROVE_TOOL, error_on_the_wire, result_on_the_wire, tool_on_the_wire
from toolyard.transports.mcp.server_info import MODERN_RESULT, NAME, TITLE, Greeting
from toolyard.transports.mcp.subscriptions import Telling, TellingServer

_SESSION_HEADER = "mcp-session-id"
_SESSION_NAME_BYTES = 8

Context = ServerRequestContext[Any, Any]


class GetSkillParams(RequestParams):
    uri: str


class YardServer:
    """Handlers for the SDK's low-level server. `surface` names the transport in the audit log."""

    def __init__(
        self,
        yard: Yard,
        surface: str,
        lane: Lane | None = None,
        on_asker: Callable[[Asker], None] | None = None,
        watches: Watches | None = None,
        *,
        terms: Terms = TERMS,
    ) -> None:
        """`lane` takes plain calls of a connection past the SDK, once it is known who is there.

        `on_asker` is told with each ping how the client of this connection can be asked. `watches` is
        what clients are told of; it is watched here where nobody else does.
        """
        self._yard = yard
        self._lane = lane
        self._on_asker = on_asker
        self._surface = surface
        self._terms = terms
        self._errors = yard.options.error_form
        self._telling: Telling | None = None
        if (told := watches or Watches.of(yard)) is not None:
            self._telling = Telling(told, lambda context: _session(context, yard), yard.mounts.clean)
        self._log = LogMessages(yard.activity, lambda context: _session(context, yard))
        self._tools = yard.dispatch.tools
        self._lists: dict[bool, ListToolsResult] = {}

    def _list_of_tools(self, *, output: bool) -> ListToolsResult:
        """What is listed now, made once for each list of tools."""
        tools = self._yard.dispatch.tools
        if tools is not self._tools:
            self._tools, self._lists = tools, {}
        if output not in self._lists:
            self._lists[output] = self._list_of(list(tools.values()), output=output)
        return self._lists[output]

    def _list_of(self, tools: list[Tool[Any]], *, output: bool) -> ListToolsResult:
        listed = [tool_on_the_wire(tool, output=output, errors=self._errors) for tool in tools]
        served = [tool.model_copy(update={"name": self._terms.served(tool.name)}) for tool in listed]
        if self._terms.approve is not None:
            served.append(APPROVE_TOOL)
        return ListToolsResult(tools=served)

    def build(self) -> Server[Any]:
        server = TellingServer(
            NAME,
            version=__version__,
            title=TITLE,
            instructions=Greeting(self._yard).instructions,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_ping=self.ping,
        )
        server.add_request_handler(LIST_SKILLS, PaginatedRequestParams, self.list_skills)
        server.add_request_handler(GET_SKILL, GetSkillParams, self.get_skill)
        server.extensions[EXTENSION] = {}
        self._log.attach(server)
        if self._telling is not None:
            self._telling.attach(server)
        # Tracing is off unless it is configured; the SDK's own middleware costs a tenth of every call.
        server.middleware[:] = [
            QuickCalls(
                self._plain, lambda context: wants_structured(_client(context)), lambda: server.server_info_stamp
            ),
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME),
        ]
        return server

    async def _plain(self, context: Context, tool: str, arguments: dict[str, Any]) -> Result:
        self._open_lane(context)
        return await self._dispatch(context, InputResponseRequestParams(), tool, arguments)

    def _open_lane(self, context: Context) -> None:
        """Let the lane speak for this connection. Only the handshake era has one to speak for."""
        if self._lane is None or self._lane.is_open or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        client = lane_client(
            self._yard, self._surface, _asker(context), structured=wants_structured(_client(context))
        )
        self._lane.open(client)

    async def ping(self, context: Context, params: RequestParams | None) -> EmptyResult:
        del params
        self._heard(context)
        if self._on_asker is not None:
            self._on_asker(_asker(context))
        return EmptyResult()

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        del params
        self._heard(context)
        self._open_lane(context)
        self._yard.warm_up()  # who asks for the tools will soon use them
        if context.request is not None and LISTED in context.request.scope:
            context.request.scope[LISTED].append(True)
        return self._list_of_tools(output=wants_structured(_client(context)))

    async def call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        try:
            result = await self._dispatch(context, params, params.name, params.arguments or {})
        except QuestionPut as question:
            return question.result
        return result_on_the_wire(result, structured=wants_structured(_client(context)))

    async def list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        after = params.cursor if params is not None and params.cursor is not None else ""
        result = await self._dispatch(
            context, InputResponseRequestParams(), LIST_RESOURCES, {"after": after}, hidden=True
        )
        return ListResourcesResult.model_validate(resources_json(result))

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        del context, params
        return ListResourceTemplatesResult.model_validate(templates_json(self._yard))

    async def read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        try:
            result = await self._dispatch(context, params, READ_RESOURCE, {"uri": params.uri}, hidden=True)
        except QuestionPut as question:
            return question.result
        facts = result.structured
        if "text" in facts:
            text = TextResourceContents(uri=params.uri, text=facts["text"], mime_type=facts["media_type"])
            return ReadResourceResult(contents=[text])
        blob = BlobResourceContents(uri=params.uri, blob=facts["blob"], mime_type=facts["media_type"])
        return ReadResourceResult(contents=[blob])

    async def list_skills(self, context: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        arguments = {"after": params.cursor or ""}
        result = await self._dispatch(context, InputResponseRequestParams(), LIST_SKILLS, arguments, hidden=True)
        page = {"nextCursor": result.structured["next"]} if "next" in result.structured else {}
        return _of_its_era(context, {"skills": result.structured["skills"], **page})

    async def get_skill(self, context: Context, params: GetSkillParams) -> dict[str, Any]:
        arguments = {"uri": params.uri}
        result = await self._dispatch(context, InputResponseRequestParams(), GET_SKILL, arguments, hidden=True)
        return _of_its_era(context, {"skill": result.structured["skill"]})

    def _heard(self, context: Context) -> None:
        if self._telling is not None:
            self._telling.heard(context)

    def _call(self, context: Context, tool: str, arguments: dict[str, Any]) -> Call:
        return Call(tool, arguments, self._surface, self._yard.agent, _session(context, self._yard))

    async def _dispatch(
        self,
        context: Context,
        params: InputResponseRequestParams,
        tool: str,
        arguments: dict[str, Any],
        *,
        hidden: bool = False,
    ) -> Result:
        self._heard(context)
        if tool == APPROVE and self._terms.approve is not None:
            return await self._terms.approve(arguments)
        call = replace(
            self._call(context, tool if hidden else self._terms.ours(tool), arguments),
            ask=self._terms.ask or asker_for(context, params),
            progress=_reporter(context),
            hidden=hidden,
        )
        began = time.monotonic()
        try:
            async with self._log.for_request(context, call.id):
                result = await self._answered(call)
        except ToolyardError as error:
            about = {"uri": arguments["uri"]} if tool in {READ_RESOURCE, GET_SKILL} else {}
            self._report(call, failed_result(error), time.monotonic() - began)
            raise error_on_the_wire(error, **about) from error
        self._report(call, result, time.monotonic() - began)
        return result

    async def _answered(self, call: Call) -> Result:
        try:
            return await self._yard.dispatch(call)
        except ToolyardError as error:
            if call.hidden:  # answers another request than a tool call, which has no results that are errors
                raise
            return result_of_failure(error, self._errors)

    def _report(self, call: Call, result: Result, seconds: float) -> None:
        if self._terms.on_result is not None and not call.hidden:
            self._terms.on_result(call.tool, call.arguments, result, seconds)


def _of_its_era(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """A result that the SDK has no type for."""
    return {**result, **MODERN_RESULT} if context.protocol_version in MODERN_PROTOCOL_VERSIONS else result


def _reporter(context: Context) -> Progress:
    async def report(done: float, total: float | None, message: str) -> None:
        await context.session.report_progress(done, total, message)

    return report


def _asker(context: Context) -> Asker:
    """How to ask over the connection itself, long after this request."""
    return asker_for(replace(context, request_id=None, meta=None), InputResponseRequestParams())


def _client(context: Context) -> str | None:
    known = context.session.client_params
    return known.client_info.name if known is not None else None


def _session(context: Context, yard: Yard) -> str:
    """Which session a call belongs to: that of a run, the HTTP session where there is one, else the server's own."""
    if context.request is None or yard.options.session:
        return yard.session
    own = context.request.headers.get(_SESSION_HEADER)
    return session_name(own) if own else yard.session


def session_name(own: str) -> str:
    """What an HTTP session is called in records and messages, from the client's own id.

    Who knows that id can speak in the session and answer its questions: other clients and a webhook are not given it.
    """
    return hashlib.blake2b(own.encode(), digest_size=_SESSION_NAME_BYTES).hexdigest()
