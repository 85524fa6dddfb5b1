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
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar, cast

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import Field

from toolyard.bridge.auditing import LOGGER, Auditor, Listener
from toolyard.bridge.bridge import FilesystemBridge
from toolyard.bridge.cache import FileCache
from toolyard.bridge.disk import SharedDisk
from toolyard.bridge.mcp_client import AnyContext, Identify, McpClient, RoundNeeded
from toolyard.bridge.pending import PendingReads
from toolyard.bridge.policy import SecurityPolicy
from toolyard.bridge.pushing import PushArguments, Pushed, PushedFile, push
from toolyard.bridge.requests import TOOL
from toolyard.bridge.shared import Shared
from toolyard.bridge.violations import DEFAULT_MOST, Violations
from toolyard.core.closing import Closing
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.limits import MIB

if TYPE_CHECKING:
    from toolyard.bridge.resources import ResourceReader
    from toolyard.storage.audit_log import AuditLog

P = ParamSpec("P")
R = TypeVar("R")

DESCRIPTION: Final = (
    "Hand files of your project over to this server: one with path and content, or several at once under files. "
    "They are checked before any is kept."
)
_OWN_TROUBLE = "The server cannot keep or find files just now, and has logged why."
_SECONDS = 30.0
_FILE_BYTES = 10 * MIB


class BridgeHost(Closing):
    """What the bridges of one server share, and the tool that goes with them. Made once, beside the server."""

    def __init__(
        self,
        policy: SecurityPolicy | None = None,
        *,
        cache: FileCache | None = None,
        shared_disk: Iterable[str | os.PathLike[str]] = (),
        seconds: float = _SECONDS,
        file_bytes: int = _FILE_BYTES,
        most_violations: int = DEFAULT_MOST,
        audit: AuditLog | None = None,
        listen: Listener | None = None,
        identify: Identify | None = None,
    ) -> None:
        """`shared_disk`: folders of this machine that may be read for clients whose project lies in them.

        `seconds` is how long a client may take for an answer; `most_violations` how often it may ask for what it may
        not have; `listen` hears of every operation; `identify` says whose files are whose, where that is not plain.
        """
        self._owns_cache = cache is None
        self._cache = cache or FileCache()
        self._identify = identify
        # Relative paths of two projects are the same: where the root is not known, a process is one project.
        self._process = "" if policy is not None and policy.project_root is not None else secrets.token_hex(8)
        self.violations = Violations(most_violations)
        self._shared = Shared(
            policy=policy or SecurityPolicy(),
            cache=self._cache,
            pending=PendingReads(self._cache.max_bytes),
            auditor=Auditor(self.violations, audit, listen),
            disk=SharedDisk([shared_disk] if isinstance(shared_disk, (str, os.PathLike)) else shared_disk),
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
        async def asking(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await tool(*args, **kwargs)
            except RoundNeeded as needed:
                return cast("R", needed.result)  # which the SDK passes on as it is
            except ToolyardError as error:
                raise on_the_wire(error) from error

        return asking

    def offer(self, server: MCPServer[Any]) -> None:
        """Add guide_cache_file to a server."""

        async def guide_cache_file(  # noqa: PLR0917 - its parameters are the tool's arguments
            ctx: Context[Any, Any],
            path: Annotated[str | None, Field(description="Relative to the project, or absolute")] = None,
            content: Annotated[str | None, Field(description="All of the file: text, or base64")] = None,
            encoding: Annotated[str, Field(description='What the file has, or "base64"')] = "utf-8",
            size: Annotated[int | None, Field(description="In bytes, to check that all came")] = None,
            mtime: Annotated[float | None, Field(description="Seconds since 1970")] = None,
            target: Annotated[str | None, Field(description="Where it leads, if it is a link")] = None,
            files: Annotated[list[PushedFile] | None, Field(description="Several files at once")] = None,
        ) -> Pushed:
            given = {
                "path": path,
                "content": content,
                "encoding": encoding,
                "size": size,
                "mtime": mtime,
                "target": target,
                "files": None if files is None else [file.model_dump() for file in files],
            }
            return await push(given, self._client(ctx), self._shared)

        server.add_tool(self.asks(guide_cache_file), name=TOOL, description=DESCRIPTION)

    async def handle(
        self, context: AnyContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer a call of guide_cache_file to a low-level server, whose list of tools has `BridgeHost.TOOL`."""
        try:
            pushed = await push(params.arguments or {}, self._client(context, params), self._shared)
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
        name=TOOL,
        description=DESCRIPTION,
        input_schema=PushArguments.model_json_schema(),
        output_schema=Pushed.model_json_schema(),
    )


def on_the_wire(error: ToolyardError) -> MCPError:
    """An error as a client gets it: with its code, and what to do next. The server's own troubles are its own."""
    if isinstance(error, SystemFault):
        LOGGER.error("%s", error, exc_info=error)
        error = SystemFault(_OWN_TROUBLE, hint="Whoever runs it can see why.", retryable=error.retryable)
    return MCPError(error.code, str(error), error.data())
