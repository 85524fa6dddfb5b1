"""The MCP server of one Yard: lists its tools, runs them through dispatch, and offers its files as resources."""

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
from toolyard.core.calls import ApprovalCallback, Call, ProgressCallback, Result
from toolyard.core.errors import ToolyardError
from toolyard.dispatch.tool import Tool
from toolyard.tools.resources import LIST_RESOURCES, READ_RESOURCE
from toolyard.tools.skill_resources import EXTENSION, GET_SKILL, LIST_SKILLS
from toolyard.transports.client_profile import APPROVE_TOOL_NAME, DEFAULT_PROFILE, LISTED_SCOPE_KEY, ClientProfile
from toolyard.transports.json_encoding import resources_json, templates_json
from toolyard.transports.mcp.client_quirks import wants_structured
from toolyard.transports.mcp.elicitation import InputRequired, approval_callback_for
from toolyard.transports.mcp.error_results import failed_result, result_of_failure
from toolyard.transports.mcp.fast_path import FastPath, fast_path_client
from toolyard.transports.mcp.fast_path_middleware import FastCallMiddleware
from toolyard.transports.mcp.log_messages import LogMessages
from toolyard.transports.mcp.publish_watch import ChangePollers
from toolyard.transports.mcp.sdk_encoding import APPROVE_TOOL, sdk_error, sdk_result, sdk_tool
from toolyard.transports.mcp.server_info import MODERN_RESULT, NAME, TITLE, ServerDescription
from toolyard.transports.mcp.subscriptions import ChangeNotifier, NotifyingServer

_SESSION_HEADER = "mcp-session-id"
_SESSION_NAME_BYTES = 8

Context = ServerRequestContext[Any, Any]


class GetSkillParams(RequestParams):
    """Parameters of a request for one skill."""

    uri: str


class YardServer:
    """Handlers for the SDK's low-level server. `surface` names the transport in the audit log."""

    def __init__(
        self,
        yard: Yard,
        surface: str,
        fast_path: FastPath | None = None,
        on_callback: Callable[[ApprovalCallback], None] | None = None,
        pollers: ChangePollers | None = None,
        *,
        profile: ClientProfile = DEFAULT_PROFILE,
    ) -> None:
        """`fast_path` takes plain calls of a connection once the client is known.

        `on_callback` gets, with each ping, the approval callback of this connection. `pollers` detect changes for
        clients; by default the server starts its own.
        """
        self._yard = yard
        self._fast_path = fast_path
        self._on_callback = on_callback
        self._surface = surface
        self._profile = profile
        self._errors = yard.options.error_form
        self._notifier: ChangeNotifier | None = None
        if (found_pollers := pollers or ChangePollers.of(yard)) is not None:
            self._notifier = ChangeNotifier(
                found_pollers, lambda context: _call_session(context, yard), yard.mounts.clean
            )
        self._log = LogMessages(yard.activity, lambda context: _call_session(context, yard))
        self._tools = yard.dispatch.tools
        self._tool_lists: dict[bool, ListToolsResult] = {}

    def _cached_tool_list(self, *, output: bool) -> ListToolsResult:
        """Returns the current tool list, cached until the tools change."""
        tools = self._yard.dispatch.tools
        if tools is not self._tools:
            self._tools, self._tool_lists = tools, {}
        if output not in self._tool_lists:
            self._tool_lists[output] = self._build_tool_list(list(tools.values()), output=output)
        return self._tool_lists[output]

    def _build_tool_list(self, tools: list[Tool[Any]], *, output: bool) -> ListToolsResult:
        listed = [sdk_tool(tool, output=output, errors=self._errors) for tool in tools]
        served = [tool.model_copy(update={"name": self._profile.served_name(tool.name)}) for tool in listed]
        if self._profile.approve is not None:
            served.append(APPROVE_TOOL)
        return ListToolsResult(tools=served)

    def build(self) -> Server[Any]:
        """Returns the SDK's server with all handlers."""
        server = NotifyingServer(
            NAME,
            version=__version__,
            title=TITLE,
            instructions=ServerDescription(self._yard).instructions,
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
        if self._notifier is not None:
            self._notifier.attach(server)
        # Tracing is off unless it is configured; the SDK's own middleware costs a tenth of every call.
        server.middleware[:] = [
            FastCallMiddleware(
                self._run_plain_call,
                lambda context: wants_structured(_client_name(context)),
                lambda: server.server_info_stamp,
            ),
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME),
        ]
        return server

    async def _run_plain_call(self, context: Context, tool: str, arguments: dict[str, Any]) -> Result:
        self._open_fast_path(context)
        return await self._dispatch(context, InputResponseRequestParams(), tool, arguments)

    def _open_fast_path(self, context: Context) -> None:
        """Opens the fast path for the client. Only the handshake protocols have one client per connection."""
        if self._fast_path is None or self._fast_path.is_open or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        client = fast_path_client(
            self._yard,
            self._surface,
            _connection_callback(context),
            structured=wants_structured(_client_name(context)),
        )
        self._fast_path.open(client)

    async def ping(self, context: Context, params: RequestParams | None) -> EmptyResult:
        del params
        self._note_client(context)
        if self._on_callback is not None:
            self._on_callback(_connection_callback(context))
        return EmptyResult()

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        del params
        self._note_client(context)
        self._open_fast_path(context)
        self._yard.warm_up()  # a client that lists the tools will soon use them
        if context.request is not None and LISTED_SCOPE_KEY in context.request.scope:
            context.request.scope[LISTED_SCOPE_KEY].append(True)
        return self._cached_tool_list(output=wants_structured(_client_name(context)))

    async def call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        try:
            result = await self._dispatch(context, params, params.name, params.arguments or {})
        except InputRequired as question:
            return question.result
        return sdk_result(result, structured=wants_structured(_client_name(context)))

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
        except InputRequired as question:
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
        return _with_protocol_fields(context, {"skills": result.structured["skills"], **page})

    async def get_skill(self, context: Context, params: GetSkillParams) -> dict[str, Any]:
        arguments = {"uri": params.uri}
        result = await self._dispatch(context, InputResponseRequestParams(), GET_SKILL, arguments, hidden=True)
        return _with_protocol_fields(context, {"skill": result.structured["skill"]})

    def _note_client(self, context: Context) -> None:
        if self._notifier is not None:
            self._notifier.note_client(context)

    def _build_call(self, context: Context, tool: str, arguments: dict[str, Any]) -> Call:
        return Call(tool, arguments, self._surface, self._yard.agent, _call_session(context, self._yard))

    async def _dispatch(
        self,
        context: Context,
        params: InputResponseRequestParams,
        tool: str,
        arguments: dict[str, Any],
        *,
        hidden: bool = False,
    ) -> Result:
        self._note_client(context)
        if tool == APPROVE_TOOL_NAME and self._profile.approve is not None:
            return await self._profile.approve(arguments)
        call = replace(
            self._build_call(context, tool if hidden else self._profile.tool_name(tool), arguments),
            ask=self._profile.ask or approval_callback_for(context, params),
            progress=_progress_reporter(context),
            hidden=hidden,
        )
        began = time.monotonic()
        try:
            async with self._log.for_request(context, call.id):
                result = await self._run_call(call)
        except ToolyardError as error:
            about = {"uri": arguments["uri"]} if tool in {READ_RESOURCE, GET_SKILL} else {}
            self._report_result(call, failed_result(error), time.monotonic() - began)
            raise sdk_error(error, **about) from error
        self._report_result(call, result, time.monotonic() - began)
        return result

    async def _run_call(self, call: Call) -> Result:
        try:
            return await self._yard.dispatch(call)
        except ToolyardError as error:
            if call.hidden:  # not a tool call, so its result cannot be an error
                raise
            return result_of_failure(error, self._errors)

    def _report_result(self, call: Call, result: Result, seconds: float) -> None:
        if self._profile.on_result is not None and not call.hidden:
            self._profile.on_result(call.tool, call.arguments, result, seconds)


def _with_protocol_fields(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """Returns a result that the SDK has no type for, with the fields of the client's protocol."""
    return {**result, **MODERN_RESULT} if context.protocol_version in MODERN_PROTOCOL_VERSIONS else result


def _progress_reporter(context: Context) -> ProgressCallback:
    async def report(done: float, total: float | None, message: str) -> None:
        await context.session.report_progress(done, total, message)

    return report


def _connection_callback(context: Context) -> ApprovalCallback:
    """Returns an approval callback for the connection, usable after this request."""
    return approval_callback_for(replace(context, request_id=None, meta=None), InputResponseRequestParams())


def _client_name(context: Context) -> str | None:
    params = context.session.client_params
    return params.client_info.name if params is not None else None


def _call_session(context: Context, yard: Yard) -> str:
    """Returns the session of a call: that of a run, the HTTP session, or the server's own."""
    if context.request is None or yard.options.session:
        return yard.session
    own = context.request.headers.get(_SESSION_HEADER)
    return session_name(own) if own else yard.session


def session_name(session_id: str) -> str:
    """Returns the name of an HTTP session in records and messages, derived from the client's session id.

    Knowing the id allows speaking in the session and answering its questions, so others must not get it.
    """
    return hashlib.blake2b(session_id.encode(), digest_size=_SESSION_NAME_BYTES).hexdigest()
