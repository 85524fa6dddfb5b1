"""Converts tools, results and errors to the SDK's types."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp_types import Tool as McpTool

from toolyard.core.calls import Blob, Image, Link, Part, Result
from toolyard.core.errors import ErrorForm, ToolyardError
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.transports.client_profile import APPROVE_TOOL_NAME
from toolyard.transports.json_encoding import base64_of, error_json, tool_json

APPROVE_TOOL = McpTool(
    name=APPROVE_TOOL_NAME,
    description="Says whether a tool may be called.",
    input_schema={
        "type": "object",
        "properties": {
            "tool_name": {"type": "string"},
            "input": {"type": "object"},
            "tool_use_id": {"type": "string"},
        },
        "required": ["tool_name", "input"],
    },
)


def sdk_tool(tool: Tool[Arguments], *, output: bool = True, errors: ErrorForm = ErrorForm.RESULT) -> McpTool:
    return McpTool.model_validate(tool_json(tool, output=output, errors=errors))


def sdk_result(result: Result, *, structured: bool = True) -> CallToolResult:
    return CallToolResult(
        content=[_content_block(part) for part in result.parts],
        structured_content=result.structured if structured else None,
        is_error=result.failed,
    )


def sdk_error(error: ToolyardError, **about: str) -> MCPError:
    return MCPError(**error_json(error, **about))


def _content_block(part: Part) -> ContentBlock:
    if isinstance(part, Image):
        return ImageContent(data=base64_of(part.data), mime_type=part.media_type)
    if isinstance(part, Blob):
        if part.media_type.startswith("audio/"):
            return AudioContent(data=base64_of(part.data), mime_type=part.media_type)
        blob = BlobResourceContents(uri=part.uri, blob=base64_of(part.data), mime_type=part.media_type)
        return EmbeddedResource(resource=blob)
    if isinstance(part, Link):
        return ResourceLink(
            uri=part.uri, name=part.name, mime_type=part.media_type, description=part.description or None
        )
    return TextContent(text=part.text)
