"""BridgeHost, which the author of an MCP server creates once, beside the server.

    server = MCPServer("guide")
    host = BridgeHost(SecurityPolicy("/home/me/project"))
    host.offer(server)

    @server.tool()
    @host.asks
    async def outline(path: str, ctx: Context) -> str:
        return await host.bridge(ctx).read_file(path)

It owns a cache that it created itself, and closes it in `close()`; a cache passed to it belongs to the caller.
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
_INTERNAL_FAULT_TEXT = "The server cannot store or find files at the moment. The reason is in its log."
_DEFAULT_SECONDS = 30.0
_DEFAULT_FILE_BYTES = 10 * MIB


def _argument_type(name: str) -> Any:
    """Returns the type of an argument: any value, with a schema for clients.

    `push_files` validates the value, because its errors name the field (-32602).
    """
    schema = PushArguments.model_json_schema()["properties"][name]
    if name == "files":
        schema = {"anyOf": [{"type": "array", "items": PushedFile.model_json_schema()}, {"type": "null"}]}
    return Annotated[Any, WithJsonSchema(schema)]


class BridgeHost(Closeable):
    """The shared state of one server's bridges, and the tool guide_cache_file. Created once, beside the server.

    Args:
        policy: Which paths of the client's project may be read. Default: the usual source folders.
        cache: Where files are cached. Default: a cache in memory that the host closes.
        shared_disk: Folders on this machine that may be read for clients whose project is inside them.
        seconds: The time limit for a client's answer.
        file_bytes: The size limit of a file.
        most_violations: After so many requests for forbidden paths a client is refused.
        refusal_seconds: For how long; None until the restart.
        errors: How failures are reported: as protocol errors, or as results with `isError`, which every framework
            shows its model (FastMCP supports only those).
        revalidate_seconds: The age at which a cached file is compared with the client's.
        max_age_seconds: For how long a file is used if the client cannot be asked.
        audit: Records every operation.
        listen: Called with every operation.
        identify: Returns the identity of the client behind a request.

    Example:
        ```python
        host = BridgeHost(SecurityPolicy("/home/me/project", ["src"]))
        host.offer(server)  # adds the tool guide_cache_file


        @server.tool()
        async def count_lines(path: str, ctx: Context) -> int:
            return len((await host.bridge(ctx).read_file(path)).splitlines())
        ```

    """

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
        """Creates the state that the bridges of all requests share."""
        self._errors: Literal["jsonrpc", "result"] = errors
        self._convert_result: Callable[[types.CallToolResult], FastResult] | None = None
        self._owns_cache = cache is None
        self._cache = cache or FileCache()
        self._identify = identify
        # Relative paths of two projects are equal: if the root is not known, each process is its own project.
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
        """Returns the bridge to a request's client. `params` are those of a request to a low-level server."""
        return FilesystemBridge(self._client(context, params), self._shared, resources)

    def asks(self, tool: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        """Decorates tools that use a bridge: sends the client's input requests, and errors with code and hint."""

        @functools.wraps(tool)
        async def call_tool(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await tool(*args, **kwargs)
            except RoundNeeded as needed:
                return cast("R", needed.result)  # the SDK passes it on unchanged
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
        """Adds guide_cache_file to a server: the SDK's MCPServer, or FastMCP 4.

        It also drops a client's cached files when the client's roots change, if paths are relative to them.
        """
        if isinstance(server, MCPServer):
            server.add_tool(self._tool_function(Context[Any, Any]), name=PUSH_TOOL_NAME, description=DESCRIPTION)
            notified = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        else:
            from fastmcp import Context as FastContext
            from fastmcp.tools import Tool as FastTool
            from fastmcp.tools import ToolResult

            # FastMCP converts every exception to its own result, without code and data.
            self._errors, self._convert_result = "result", ToolResult.from_mcp_result
            tool = FastTool.from_function(
                self._tool_function(FastContext), name=PUSH_TOOL_NAME, description=DESCRIPTION
            )
            server.add_tool(tool)
            notified = server._mcp_server  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
        # Neither has a public API for notifications; a handler that the author registered is not replaced.
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
        """Handles `notifications/roots/list_changed`, for low-level servers; `offer` registers it.

        If the project's root is not known, paths are relative to the client's roots: after a change, cached files may
        belong to another project.
        """
        del params
        if self._shared.policy.project_root is None:
            identity = self._client(context).identity
            await self._shared.with_cache(lambda cache: cache.clear(client=identity))

    async def handle(
        self, context: AnyContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Handles a call of guide_cache_file on a low-level server, whose tool list contains `BridgeHost.TOOL`."""
        try:
            pushed = await push_files(params.arguments or {}, self._client(context, params), self._shared)
        except RoundNeeded as needed:
            return needed.result
        except ToolyardError as error:
            raise on_the_wire(error) from error
        structured = pushed.model_dump()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=pushed.model_dump_json())], structured_content=structured
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
    """Returns an error as it is sent to a client, with code and hint. Details of internal faults are only logged."""
    if isinstance(error, SystemFault):
        LOGGER.error("%s", error, exc_info=error)
        error = SystemFault(
            _INTERNAL_FAULT_TEXT,
            hint="The server's operator can find the reason in the log.",
            retryable=error.retryable,
        )
    return MCPError(error.code, str(error), error.data())
