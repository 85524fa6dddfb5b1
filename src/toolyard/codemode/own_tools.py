"""Calls Toolyard's own file tools for sandboxed code: `from servers.filesystem import write_file`.

A call uses its own dispatcher, on the servers' loop: the same policy, snapshots and audit log as for a client that
calls the tool itself. `app.own_tool_files` decides which tools exist.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from toolyard.codemode.files import compile_index, compile_own_tools
from toolyard.codemode.generated_folder import SERVERS, GeneratedFolder
from toolyard.core.calls import Blob, Call, Dispatcher, Image, Link, Part, Text
from toolyard.core.upstream import Json, ServerListing, UpstreamResult

if TYPE_CHECKING:
    from toolyard.codemode.upstream_caller import UpstreamCall
    from toolyard.files.roots import Root


class OwnToolDispatcher(Dispatcher, Protocol):
    """Runs the file tools. Code mode closes it."""

    def close(self) -> None: ...


def write_own_tools(root: Root, state: str, listing: ServerListing) -> None:
    """Writes `servers/filesystem` if it is missing or from another version."""
    with GeneratedFolder(root, SERVERS, state) as folder:
        own = compile_own_tools(listing.tools, listing.version)
        folder.update_folder(own.folder, own.files)
        if "index.json" not in folder.entry_names():
            for name, text in compile_index([own]).items():
                folder.ensure_file(name, text)


async def call_own_tool(dispatch: Dispatcher, call: UpstreamCall) -> UpstreamResult:
    """Calls a file tool. Raises what the tool raises, as `UpstreamCaller.call` does."""
    arguments = dict(call.arguments)
    made = Call(call.tool, arguments, call.surface, agent=call.agent, session=call.session, ask=call.ask)
    result = await dispatch(made)
    return UpstreamResult(tuple(_content_blocks(result.parts)), result.structured)


def _content_blocks(parts: Iterable[Part]) -> Iterable[Json]:
    """Yields MCP content blocks."""
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
