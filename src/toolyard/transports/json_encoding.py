"""JSON encoding of tools, results and errors, byte for byte as the MCP SDK writes it.

Does not need the SDK, which takes longer to load than everything else together. `mcp/sdk_encoding.py` produces the
same as the SDK's types.
"""

from __future__ import annotations

import base64
import json
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json

from toolyard.app.yard import Yard
from toolyard.core.calls import Blob, Image, Link, Part, Result
from toolyard.core.errors import ErrorForm, ToolyardError
from toolyard.core.uris import path_to_uri
from toolyard.dispatch.tool import Arguments, Tool
from toolyard.tools.skill_resources import PREFIX
from toolyard.transports.output_schema import schema_admitting_errors

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
CONNECTION_CLOSED = -32000


def encode_json(message: dict[str, Any]) -> bytes:
    """Returns a message as UTF-8 JSON."""
    try:
        return to_json(message)
    except (PydanticSerializationError, UnicodeEncodeError):  # lone surrogates, which JSON can escape
        return json.dumps(message).encode()


def tool_json(tool: Tool[Arguments], *, output: bool = True, errors: ErrorForm = ErrorForm.RESULT) -> dict[str, Any]:
    """Returns a tool as in `tools/list`."""
    fields: dict[str, Any] = {
        "annotations": {
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
            "readOnlyHint": tool.read_only,
        },
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "name": tool.name,
    }
    if output:
        fields["outputSchema"] = schema_admitting_errors(tool.output) if errors is ErrorForm.RESULT else tool.output
    return fields


def result_json(result: Result, *, structured: bool) -> dict[str, Any]:
    """Returns a result in the form of the handshake protocols."""
    answer: dict[str, Any] = {"content": [_block_json(part) for part in result.parts], "isError": result.failed}
    if structured:
        answer["structuredContent"] = result.structured
    return answer


def resources_json(result: Result) -> dict[str, Any]:
    """Returns a page of the workspace's skills and files."""
    following = result.structured.get("next")
    page: dict[str, Any] = {} if following is None else {"nextCursor": following}
    page["resources"] = [_resource_json(resource) for resource in result.structured["resources"]]
    return page


def _resource_json(resource: dict[str, str]) -> dict[str, str]:
    fields = {"mimeType": resource["media_type"], "name": resource["name"], "uri": resource["uri"]}
    return {"description": resource["description"], **fields} if "description" in resource else fields


def templates_json(yard: Yard) -> dict[str, Any]:
    """Returns the URI templates of resources: workspace files and skill files, or those of the tool provider."""
    if yard.options.tool_provider is not None:
        offered = yard.options.tool_provider.templates
        listed = [{"description": each.description, "name": each.name, "uriTemplate": each.uri} for each in offered]
        return {"resourceTemplates": listed}
    root = yard.mounts.workspace.path
    template = {
        "description": "A file of the workspace",
        "name": "file",
        "uriTemplate": f"{path_to_uri(root)}/{{+path}}",
    }
    skill = {
        "description": "A file of a skill",
        "name": "skill",
        "uriTemplate": f"{PREFIX}{{owner}}/{{name}}/{{+path}}",
    }
    return {"resourceTemplates": [template, skill]}


def error_json(error: ToolyardError, **about: str) -> dict[str, Any]:
    """Returns an error as a JSON-RPC error; `about` adds members to its data, such as a resource's URI."""
    data = _sendable_data({**error.data(), **about})
    return {"code": error.code, "message": sendable_text(str(error)), "data": data}


def error_fields(error: ToolyardError) -> dict[str, Any]:
    """Returns an error as one object, with message and hint separate."""
    return {"code": error.code, **_sendable_data(error.data()), "message": sendable_text(error.message)}


def sendable_text(text: str) -> str:
    """Returns text that JSON can carry: bytes of a file name that are not UTF-8 become escapes."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()


def _sendable_data(value: Any) -> Any:
    if isinstance(value, str):
        return sendable_text(value)
    if isinstance(value, dict):
        return {key: _sendable_data(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_sendable_data(item) for item in cast("list[Any]", value)]
    return value


def _block_json(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "data": base64_of(part.data), "mimeType": part.media_type}
    if isinstance(part, Blob):
        if part.media_type.startswith("audio/"):
            return {"type": "audio", "data": base64_of(part.data), "mimeType": part.media_type}
        blob = {"uri": part.uri, "mimeType": part.media_type, "blob": base64_of(part.data)}
        return {"type": "resource", "resource": blob}
    if isinstance(part, Link):
        fields = {"type": "resource_link", "uri": part.uri, "name": part.name, "mimeType": part.media_type}
        return {**fields, "description": part.description} if part.description else fields
    return {"type": "text", "text": part.text}


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
