"""JSON of the HTTP API: tools, results and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolyard.core.calls import Result
from toolyard.core.errors import ToolyardError
from toolyard.dispatch.tool import Tool
from toolyard.transports.client_profile import ClientProfile
from toolyard.transports.json_encoding import error_fields, result_json


def tool_catalogue(tools: Iterable[Tool[Any]], profile: ClientProfile) -> list[dict[str, Any]]:
    """Returns the tools under their served names; `title` is our own name."""
    return [
        {
            "name": profile.served_name(tool.name),
            "title": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output,
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        }
        for tool in tools
    ]


def result_line(result: Result) -> dict[str, Any]:
    """Returns the last line of a successful call."""
    content = result_json(result, structured=False)["content"]
    return {"type": "result", "content": content, "structured": result.structured}


def error_line(error: ToolyardError) -> dict[str, Any]:
    """Returns the last line of a failed call."""
    return {"type": "error", "error": error_fields(error)}
