"""Typed access to JSON of a CLI: returns an empty value instead of raising."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

from toolyard.drivers.messages import Tokens

_MAX_COUNT = 2**63
"""Larger counts are invalid."""


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def get_text(record: Mapping[str, Any], key: str) -> str:
    """Returns a string member, or ""."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def get_object(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns an object member, or {}."""
    value = record.get(key)
    return value if is_object(value) else {}


def get_objects(record: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yields the objects in a list."""
    value = record.get(key)
    if isinstance(value, list):
        yield from (each for each in cast("list[object]", value) if is_object(each))


def get_count(record: Mapping[str, Any], key: str) -> int:
    """Returns a non-negative integer member, or 0."""
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT else 0


def get_cost(record: Mapping[str, Any], key: str) -> float | None:
    """Returns a non-negative number member, or None."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_COUNT:
        return None
    return float(value)


def parse_arguments(value: object) -> dict[str, Any]:
    """Returns the arguments of a call: an object, or JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return dict(value) if is_object(value) else {}


def blocks_text(value: object) -> str:
    """Returns the text of a tool result: a string, or content blocks."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    texts: list[str] = []
    for block in cast("list[object]", value):
        if is_object(block):
            kind = get_text(block, "type") or "something"
            texts.append(get_text(block, "text") if kind == "text" else f"[{kind}]")
    return "\n".join(texts)


def error_message(value: object) -> str:
    """Returns the message of an error, even if it is JSON nested in JSON."""
    found = _deepest_message(value, depth=0)
    return found.strip()


_MAX_DEPTH = 6


def _deepest_message(value: object, depth: int) -> str:
    if depth > _MAX_DEPTH:
        return ""
    if is_object(value):
        for key in ("message", "error", "data"):
            if (value.get(key)) and (found := _deepest_message(value[key], depth + 1)):
                return found
        return get_text(value, "name") or get_text(value, "type")
    if not isinstance(value, str):
        return ""
    start, end = value.find("{"), value.rfind("}")
    if 0 <= start < end:
        try:
            parsed = json.loads(value[start : end + 1])
        except (ValueError, RecursionError):
            return value
        before = value[:start].strip().strip("[:").rstrip("(").strip()
        inner_message = _deepest_message(parsed, depth + 1)
        status = get_object(parsed, "error").get("code") if is_object(parsed) else None
        parts = (before, str(status) if isinstance(status, int) else "", inner_message)
        return ": ".join(word for word in parts if word) or value
    return value


def add_tokens(tokens: Tokens, more: Tokens) -> Tokens:
    """Returns the sum of two token counts."""
    return Tokens(tokens.input + more.input, tokens.output + more.output, tokens.cached + more.cached)


def toml_value(value: object) -> str:
    """Returns a TOML value. JSON is valid TOML for the values used here, except one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
