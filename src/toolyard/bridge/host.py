"""BridgeHost: what the author of an MCP server makes once, beside the server.

    server = MCPServer("guide")
    host = BridgeHost(SecurityPolicy("/home/me/project"))
    host.offer(server)

    @server.tool()
    @host.asks
    async def outline(path: str, ctx: Context) -> str:
        return await host.bridge(ctx).read_file(path)

It owns the cache that it made itself, which `close()` ends; one that it is given belongs to whoever made it.
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, ParamSpec, TypeVar, cast

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import WithJsonSchema

from toolyard.bridge.audit import LOGGER, Auditor, Listener
from toolyard.bridge.bridge import FilesystemBridge
from toolyard.bridge.cache import FileCache
from toolyard.bridge.disk import SharedDisk
from toolyard.bridge.freshness import MAX_AGE_SECONDS, REVALIDATE_SECONDS, Freshness
from toolyard.bridge.mcp_client import Identify, McpClient, RoundNeeded
from toolyard.bridge.pending_reads import PendingReads
from toolyard.bridge.policy import SecurityPolicy
from toolyard.bridge.push_tool import PushArguments, Pushed, PushedFile, push_files
from toolyard.bridge.sampling_prompts import PUSH_TOOL_NAME
from toolyard.bridge.state import BridgeState
from toolyard.bridge.violations import DEFAULT_MAX_VIOLATIONS, DEFAULT_REFUSAL_SECONDS, ViolationCounter
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.limits import MIB

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from fastmcp.tools import ToolResult as FastResult

    from toolyard.bridge.mcp_client import AnyContext
    from toolyard.bridge.resources import ResourceReader
    from toolyard.storage.audit_log import AuditLog

    AnyServer = MCPServer[Any] | FastMCP[Any]

P = ParamSpec("P")
R = TypeVar("R")

DESCRIPTION: Final = (
    "Hand files of your project over to this server: one with path and content, or several at once under files. "
    "They are checked before any is kept."
)
_ROOTS_CHANGED: Final = "notifications/roots/list_changed"
_INTERNAL_FAULT_TEXT = "The server cannot keep or find files just now, and has logged why."
_DEFAULT_SECONDS = 30.0
_DEFAULT_FILE_BYTES = 10 * MIB


def _argument_type(name: str) -> Any:
    """The type of an argument: described to clients, and checked by `push_files`, whose errors name the field (-32602)."""
    schema = PushArguments.model_json_schema()["properties"][name]
    if name == "files":
        schema = {"anyOf": [{"type": "array", "items": PushedFile.model_json_schema()}, {"type": "null"}]}
    return Annotated[Any, WithJsonSchema(schema)]


class BridgeHost(Closeable):
    """What the bridges of one server share, and the tool that goes with them. Made once, beside the server."""

    def __init__(
        self,
        policy: SecurityPolicy | None = None,
        *,
        cache: FileCache | None = None,
        shared_disk: Iterable[str | os.PathLike[str]] = (),
        seconds: float = _DEFAULT_SECONDS,
        file_bytes: int = _DEFAULT_FILE_BYTES,
        most_violations: int = DEFAULT_MAX_VIOLATIONS,
        refusal_seconds: float | None = DEFAULT_REFUSAL_SECONDS,
        errors: Literal["jsonrpc", "result"] = "jsonrpc",
        revalidate_seconds: float = REVALIDATE_SECONDS,
        max_age_seconds: float | None = MAX_AGE_SECONDS,
        audit: AuditLog | None = None,
        listen: Listener | None = None,
        identify: Identify | None = None,
    ) -> None:
        """`shared_disk`: folders of this machine that may be read for clients whose project lies in them.

        `seconds` is how long a client may take for an answer. After `most_violations` requests for paths that it may
        not have, a client is refused for `refusal_seconds` (None: until the restart). A cached file is compared with
        the client's once it is `revalidate_seconds` old; of a client that cannot be asked, it is used for
        `max_age_seconds`. `errors` says how failures are answered: as errors of the protocol, or as results with
        `isError`, which every framework shows its model (FastMCP knows no others). `listen` hears of every operation;
        `identify` says whose files are whose.
        """
        self._errors: Literal["jsonrpc", "result"] = errors
        self._convert_result: Callable[[types.CallToolResult], FastResult] | None = None
        self._owns_cache = cache is None
        self._cache = cache or FileCache()
        self._identify = identify
        # Relative paths of two projects are the same: where the root is not known, a process is one project.
        self._process = "" if policy is not None and policy.project_root is not None else secrets.token_hex(8)
        self.violations = ViolationCounter(most_violations, refusal_seconds)
        self._shared = BridgeState(
            policy=policy or SecurityPolicy(),
            cache=self._cache,
            pending=PendingReads(self._cache.max_bytes),
            auditor=Auditor(self.violations, audit, listen),
            disk=SharedDisk([shared_disk] if isinstance(shared_disk, (str, os.PathLike)) else shared_disk),
            freshness=Freshness(revalidate_seconds, max_age_seconds),
            seconds=seconds,
            file_bytes=file_bytes,
        )

    @property
    def cache(self) -> FileCache:
        return self._cache

    @property
    def policy(self) -> SecurityPolicy:
        return self._shared.policy

    def close(self) -> None:
        if self._owns_cache:
            self._cache.close()

    def bridge(
        self,
        context: AnyContext,
        params: types.InputResponseRequestParams | None = None,
        *,
        resources: ResourceReader | None = None,
    ) -> FilesystemBridge:
        """The files of the client behind a request. `params` are those of a request to a low-level server."""
        return FilesystemBridge(self._client(context, params), self._shared, resources)

    def asks(self, tool: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """For tools that use a bridge: the client is asked where it has to be, and errors cross the wire whole."""

        @functools.wraps(tool)
        async def call_tool(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await tool(*args, **kwargs)
            except RoundNeeded as needed:
                return cast("R", needed.result)  # which the SDK passes on as it is
            except ToolyardError as error:
                if self._errors == "jsonrpc":
                    raise on_the_wire(error) from error
                return cast("R", self._error_result(error))

        return call_tool

    def _error_result(self, error: ToolyardError) -> types.CallToolResult | FastResult:
        shown = on_the_wire(error).error
        result = types.CallToolResult(
            content=[types.TextContent(type="text", text=shown.message)],
            structured_content={"error": {"code": shown.code, "message": error.message, **(shown.data or {})}},
            is_error=True,
        )
        if self._convert_result is None:
            return result
        return self._convert_result(result)

    def offer(self, server: AnyServer) -> None:
        """Add guide_cache_file to a server: the SDK's MCPServer, or FastMCP 4.

        It also forgets a client's files when that client's roots change, where paths are relative to them.
        """
        if isinstance(server, MCPServer):
            server.add_tool(self._tool_function(Context[Any, Any]), name=PUSH_TOOL_NAME, description=DESCRIPTION)
            notified = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        else:
            from fastmcp import Context as FastContext
            from fastmcp.tools import Tool as FastTool
            from fastmcp.tools import ToolResult

            # FastMCP answers every exception with a result of its own making, without code and data.
            self._errors, self._convert_result = "result", ToolResult.from_mcp_result
            tool = FastTool.from_function(
                self._tool_function(FastContext), name=PUSH_TOOL_NAME, description=DESCRIPTION
            )
            server.add_tool(tool)
            notified = server._mcp_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        # Neither has a public way to hear of it; one that the author registered stays.
        if notified.get_notification_handler(_ROOTS_CHANGED) is None:
            notified.add_notification_handler(_ROOTS_CHANGED, types.NotificationParams, self.roots_changed)

    def _tool_function(self, context_type: Any) -> Callable[..., Awaitable[Pushed]]:
        async def guide_cache_file(  # noqa: PLR0917 - its parameters are the tool's arguments
            ctx: Any,
            path: Any = None,
            content: Any = None,
            encoding: Any = "utf-8",
            size: Any = None,
            mtime: Any = None,
            target: Any = None,
            files: Any = None,
        ) -> Pushed:
            given = {
                "path": path,
                "content": content,
                "encoding": encoding,
                "size": size,
                "mtime": mtime,
                "target": target,
                "files": files,
            }
            return await push_files(given, self._client(ctx), self._shared)

        types_of_arguments = {name: _argument_type(name) for name in PushArguments.model_fields}
        guide_cache_file.__annotations__ = {"ctx": context_type, **types_of_arguments, "return": Pushed}
        return self.asks(guide_cache_file)

    async def roots_changed(self, context: AnyContext, params: types.NotificationParams | None = None) -> None:
        """A handler of `notifications/roots/list_changed`, for low-level servers; `offer` registers it.

        Where the project's root is not known, paths are relative to what the client offers: after a change, files
        from before may be those of another project.
        """
        del params
        if self._shared.policy.project_root is None:
            identity = self._client(context).identity
            await self._shared.with_cache(lambda cache: cache.clear(client=identity))

    async def handle(
        self, context: AnyContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer a call of guide_cache_file to a low-level server, whose list of tools has `BridgeHost.TOOL`."""
        try:
            pushed = await push_files(params.arguments or {}, self._client(context, params), self._shared)
        except RoundNeeded as needed:
            return needed.result
        except ToolyardError as error:
            raise on_the_wire(error) from error
        told = pushed.model_dump()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=pushed.model_dump_json())], structured_content=told
        )

    def _client(self, context: AnyContext, params: types.InputResponseRequestParams | None = None) -> McpClient:
        return McpClient(context, params, tool=self.TOOL, identify=self._identify, process=self._process)

    TOOL: Final = types.Tool(
        name=PUSH_TOOL_NAME,
        description=DESCRIPTION,
        input_schema=PushArguments.model_json_schema(),
        output_schema=Pushed.model_json_schema(),
    )


def on_the_wire(error: ToolyardError) -> MCPError:
    """An error as a client gets it: with its code, and what to do next. The server's own troubles are its own."""
    if isinstance(error, SystemFault):
        LOGGER.error("%s", error, exc_info=error)
        error = SystemFault(_INTERNAL_FAULT_TEXT, hint="Whoever runs it can see why.", retryable=error.retryable)
    return MCPError(error.code, str(error), error.data())
