"""How the reference tools answer: one string called `content`, and beside it a note when something is missing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from toolyard.core.calls import Result, Text
from toolyard.dispatch.tool import output_schema

Path = Annotated[str, Field(description="Absolute, or relative to the workspace")]

CONTENT = output_schema(("note",), content="string", note="string")


def content_result(content: str, note: str = "") -> Result:
    """The note stands apart from the content, so that what was read can be written again as it is."""
    if not note:
        return Result((Text(content),), {"content": content})
    return Result((Text(content), Text(f"[{note}]")), {"content": content, "note": note})


def join_lines(lines: list[str], max_chars: int) -> tuple[str, int]:
    """As many lines as fit into `max_chars`, and how many were left out."""
    left = max_chars
    for index, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return "\n".join(lines[:index]), len(lines) - index
    return "\n".join(lines), 0


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """A JSON object in which all of these are required."""
    return {"type": "object", "properties": properties, "required": list(properties)}
