"""Toolyard's own file tools for sandboxed code: `from servers.filesystem import write_file`.

A call goes through a dispatch of its own, on the servers' loop: the same policy, snapshots and audit log as for a
client that calls the tool itself.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from toolyard import __version__
from toolyard.app.dispatch import Dispatch
from toolyard.app.tools.reference import REFERENCE_TOOLS
from toolyard.app.toolsets import is_served
from toolyard.codemode.files import OWN_SERVER, compile_index, compile_own_tools
from toolyard.codemode.folder import SERVERS, GeneratedFolder
from toolyard.core.calls import Blob, Call, Image, Link, Part, Text
from toolyard.core.upstream import Json, ServerListing, ToolAnswer, ToolSchema

if TYPE_CHECKING:
    from toolyard.app.codemode.upstream import UpstreamCall
    from toolyard.app.tool import Tool
    from toolyard.config.models import Agent
    from toolyard.fs.roots import Root


OWN_TOOL_NAMES: Final = frozenset(tool.name for tool in REFERENCE_TOOLS)


def own_tools(agent: Agent | None) -> dict[str, Tool[Any]]:
    """The file tools that the agent's `allowed_tools` and `exclude_tools` leave it."""
    allowed, excluded = (agent.backend.allowed_tools, agent.backend.exclude_tools) if agent else ((), ())
    return {tool.name: tool for tool in REFERENCE_TOOLS if is_served(tool.name, allowed, excluded)}


def own_listing() -> ServerListing:
    """All of them, as a server would list them: the tool files are shared by every agent of a workspace."""
    return ServerListing(OWN_SERVER, tuple(_schema(tool) for tool in REFERENCE_TOOLS), __version__)


def _schema(tool: Tool[Any]) -> ToolSchema:
    hints = {"readOnlyHint": tool.read_only, "destructiveHint": tool.destructive, "idempotentHint": tool.idempotent}
    return ToolSchema(tool.name, tool.description, tool.input_schema, tool.output, hints)


def write_own_tools(root: Root, state: str) -> None:
    """Write `servers/filesystem` where no sync has done so yet, or one of another version has."""
    with GeneratedFolder(root, SERVERS, state) as folder:
        listing = own_listing()
        own = compile_own_tools(listing.tools, listing.version)
        folder.update(own.folder, own.files)
        if "index.json" not in folder.names():
            for name, text in compile_index([own]).items():
                folder.keep(name, text)


def package_own_tools(runtime: str) -> None:
    """Write the tool files that come with the runtime, below its folder. `make tool-files` calls it."""
    listing = own_listing()
    own = compile_own_tools(listing.tools, listing.version)
    folder = os.path.join(runtime, "own_packages", SERVERS, own.folder)
    os.makedirs(folder, exist_ok=True)
    for name in set(os.listdir(folder)) - set(own.files) - {"__pycache__"}:
        os.unlink(os.path.join(folder, name))
    for name, text in own.files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


async def call_own_tool(dispatch: Dispatch, call: UpstreamCall) -> ToolAnswer:
    """Raises what the tool raises, as `Upstream.call` does."""
    arguments = dict(call.arguments)
    made = Call(call.tool, arguments, call.surface, agent=call.agent, session=call.session, ask=call.ask)
    result = await dispatch(made)
    return ToolAnswer(tuple(_blocks(result.parts)), result.structured)


def _blocks(parts: Iterable[Part]) -> Iterable[Json]:
    """Content blocks as MCP spells them."""
    for part in parts:
        match part:
            case Text(text):
                yield {"type": "text", "text": text}
            case Image(data, media_type):
                yield {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}
            case Blob(data, media_type, uri):
                blob = {"uri": uri, "mimeType": media_type, "blob": base64.b64encode(data).decode()}
                yield {"type": "resource", "resource": blob}
            case Link(uri, name, media_type, description):
                yield {
                    "type": "resource_link",
                    "uri": uri,
                    "name": name,
                    "mimeType": media_type,
                    "description": description,
                }
