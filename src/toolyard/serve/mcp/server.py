"""The MCP server of one Yard: lists its tools, runs them through dispatch, offers its files as resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    InputResponseRequestParams,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolyard import __version__
from toolyard.app.tools.resources import LIST_RESOURCES, READ_RESOURCE, uri_of
from toolyard.app.yard import Yard
from toolyard.core.calls import Call, Progress, Result
from toolyard.core.errors import ToolyardError
from toolyard.serve.mcp.asking import QuestionPut, asker_for
from toolyard.serve.mcp.clients import wants_structured
from toolyard.serve.mcp.lane import Lane, LaneClient
from toolyard.serve.mcp.quick import QuickCalls
from toolyard.serve.mcp.wire import error_on_the_wire, result_on_the_wire, tool_on_the_wire

NAME = "toolyard"
_SESSION_HEADER = "mcp-session-id"

Context = ServerRequestContext[Any, Any]


class YardServer:
    """Handlers for the SDK's low-level server. `surface` names the transport in the audit log."""

    def __init__(self, yard: Yard, surface: str, lane: Lane | None = None) -> None:
        """`lane` takes plain calls of a connection past the SDK, once it is known who is there."""
        self._yard = yard
        self._lane = lane
        self._surface = surface
        tools = list(yard.dispatch.tools.values())
        self._listed = ListToolsResult(tools=[tool_on_the_wire(tool) for tool in tools])
        self._listed_as_text = ListToolsResult(tools=[tool_on_the_wire(tool, output=False) for tool in tools])

    def build(self) -> Server[Any]:
        server: Server[Any] = Server(
            NAME,
            version=__version__,
            title="Toolyard",
            instructions=_instructions(self._yard),
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
        )
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
        # Outlives this request: questions go over the connection itself.
        whole = replace(context, request_id=None, meta=None)

        async def run(tool: str, arguments: dict[str, Any], progress: Progress) -> Result:
            return await self._dispatch(whole, InputResponseRequestParams(), tool, arguments, progress=progress)

        def now(tool: str, arguments: dict[str, Any]) -> Result | None:
            try:
                return self._yard.dispatch.now(self._call(whole, tool, arguments))
            except ToolyardError as error:
                raise error_on_the_wire(error) from error

        self._lane.open(LaneClient(now, run, structured=wants_structured(_client(context))))

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        del params
        self._open_lane(context)
        self._yard.warm_up()  # who asks for the tools will soon use them
        return self._listed if wants_structured(_client(context)) else self._listed_as_text

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
        return ListResourcesResult(
            resources=[
                Resource(uri=found["uri"], name=found["name"], mime_type=found["media_type"])
                for found in result.structured["resources"]
            ],
            next_cursor=result.structured.get("next"),
        )

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        del context, params
        root = uri_of(self._yard.mounts.workspace.path)
        template = ResourceTemplate(
            uri_template=f"{root}/{{+path}}", name="file", description="A file of the workspace"
        )
        return ListResourceTemplatesResult(resource_templates=[template])

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

    def _call(self, context: Context, tool: str, arguments: dict[str, Any]) -> Call:
        return Call(tool, arguments, self._surface, self._yard.agent, _session(context, self._surface))

    async def _dispatch(
        self,
        context: Context,
        params: InputResponseRequestParams,
        tool: str,
        arguments: dict[str, Any],
        *,
        hidden: bool = False,
        progress: Progress | None = None,
    ) -> Result:
        call = replace(
            self._call(context, tool, arguments),
            ask=asker_for(context, params),
            progress=progress or _reporter(context),
            hidden=hidden,
        )
        try:
            return await self._yard.dispatch(call)
        except ToolyardError as error:
            about = {"uri": arguments["uri"]} if tool == READ_RESOURCE else {}
            raise error_on_the_wire(error, **about) from error


def _reporter(context: Context) -> Progress:
    async def report(done: float, total: float | None, message: str) -> None:
        await context.session.report_progress(done, total, message)

    return report


def _client(context: Context) -> Implementation | None:
    known = context.session.client_params
    return known.client_info if known is not None else None


def _session(context: Context, surface: str) -> str:
    """Who remembers what was read: the HTTP session where there is one, else everybody on this transport."""
    if context.request is None:
        return surface
    return context.request.headers.get(_SESSION_HEADER) or surface


def _instructions(yard: Yard) -> str:
    root = yard.mounts.workspace.path
    finds = "search_tools" in yard.dispatch.tools
    upstream = "search_tools finds tools of attached servers, execute_python calls them. " if finds else ""
    return (
        f"Tools for the workspace {root}. Paths may be absolute or relative to it. Commands and code run in a "
        f"sandbox that sees the workspace and has no network unless hosts were allowed. "
        f"{upstream}Permission mode: {yard.policy.mode.value}. Errors say what to do next."
    )
