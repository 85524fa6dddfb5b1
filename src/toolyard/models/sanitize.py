"""Sanitizes a response: valid Unicode only, and every part of the expected type.

Models split surrogate pairs and servers pass the halves on, which no UTF-8 writer accepts. The SDKs do not check
types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def repair_surrogates(text: str) -> str:
    """Joins halves of a surrogate pair; replaces a single half by the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sanitize_response(response: ModelResponse) -> ModelResponse:
    """Returns the response with valid text. Raises TypeError if a part has an unexpected type."""
    return replace(response, parts=[_sanitize_part(part) for part in response.parts])


def _sanitize_part(part: Any) -> Any:
    if part.part_kind == "tool-call":
        args = part.args
        if not isinstance(args, str | dict | None):
            raise TypeError("arguments that are not text")
        return replace(
            part,
            tool_name=_sanitize_text(part.tool_name),
            tool_call_id=_sanitize_text(part.tool_call_id or ""),
            args=_sanitize_value(args),
        )
    content = getattr(part, "content", None)
    if part.part_kind in {"text", "thinking"} and content is not None:
        return replace(part, content=_sanitize_text(content))
    return part


def _sanitize_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a value that should be text")
    return repair_surrogates(value)


def _sanitize_value(value: Any) -> Any:
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        return {_sanitize_value(name): _sanitize_value(each) for name, each in named.items()}
    return [_sanitize_value(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value
