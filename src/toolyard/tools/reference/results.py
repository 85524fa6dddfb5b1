"""The results of the reference tools: one string called `content`, and a note if something was left out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from toolyard.core.calls import Result, Text
from toolyard.dispatch.tool import output_schema

Path = Annotated[str, Field(description="Absolute, or relative to the workspace")]

CONTENT = output_schema(("note",), content="string", note="string")


def content_result(content: str, note: str = "") -> Result:
    """Builds a result. The note is a separate part, so that the content can be written back unchanged."""
    if not note:
        return Result((Text(content),), {"content": content})
    return Result((Text(content), Text(f"[{note}]")), {"content": content, "note": note})


def join_lines(lines: list[str], max_chars: int) -> tuple[str, int]:
    """Returns as many lines as fit into `max_chars`, and how many were left out."""
    left = max_chars
    for index, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return "\n".join(lines[:index]), len(lines) - index
    return "\n".join(lines), 0


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a JSON object in which all of these properties are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}
