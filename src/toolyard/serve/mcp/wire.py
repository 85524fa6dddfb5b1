"""Our tools, results and errors as MCP types."""

from __future__ import annotations

import base64
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from toolyard.app.tool import Arguments, Tool
from toolyard.core.calls import Blob, Image, Part, Result
from toolyard.core.errors import ToolyardError


def tool_on_the_wire(tool: Tool[Arguments], *, output: bool = True) -> McpTool:
    return McpTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output if output else None,
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def result_on_the_wire(result: Result, *, structured: bool = True) -> CallToolResult:
    return CallToolResult(
        content=[block_on_the_wire(part) for part in result.parts],
        structured_content=result.structured if structured else None,
    )


def error_on_the_wire(error: ToolyardError, **about: str) -> MCPError:
    """`about` adds what the protocol wants beside our own data, such as a resource's URI."""
    return MCPError(code=error.code, message=sendable(str(error)), data=_sendable_data({**error.data(), **about}))


def sendable(text: str) -> str:
    """Text that JSON can carry. A file's name that is not UTF-8 is not: its bytes appear as escapes."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


def _sendable_data(value: Any) -> Any:
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, dict):
        return {key: _sendable_data(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_sendable_data(item) for item in cast("list[Any]", value)]
    return value


def block_on_the_wire(part: Part) -> ContentBlock:
    if isinstance(part, Image):
        return ImageContent(data=_base64(part.data), mime_type=part.media_type)
    if isinstance(part, Blob):
        if part.media_type.startswith("audio/"):
            return AudioContent(data=_base64(part.data), mime_type=part.media_type)
        blob = BlobResourceContents(uri=part.uri, blob=_base64(part.data), mime_type=part.media_type)
        return EmbeddedResource(resource=blob)
    return TextContent(text=part.text)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
