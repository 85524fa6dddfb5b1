"""Values out of JSON that somebody else wrote: what was asked for or an empty one, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard, cast

from toolyard.drivers.messages import Tokens

_MAX_COUNT = 2**63
"""Of a count. Larger ones are nonsense."""


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)


def get_text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def get_object(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if is_object(value) else {}


def get_objects(record: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The objects in a list."""
    value = record.get(key)
    if isinstance(value, list):
        yield from (each for each in cast("list[object]", value) if is_object(each))


def get_count(record: Mapping[str, Any], key: str) -> int:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT else 0


def get_cost(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_COUNT:
        return None
    return float(value)


def parse_arguments(value: object) -> dict[str, Any]:
    """Those of a call: an object, or JSON of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return dict(value) if is_object(value) else {}


def blocks_text(value: object) -> str:
    """What a tool answered: a text, or blocks of text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    shown: list[str] = []
    for block in cast("list[object]", value):
        if is_object(block):
            kind = get_text(block, "type") or "something"
            shown.append(get_text(block, "text") if kind == "text" else f"[{kind}]")
    return "\n".join(shown)


def error_message(value: object) -> str:
    """What an error says, however deep in JSON within JSON it says so."""
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
        said = _deepest_message(parsed, depth + 1)
        status = get_object(parsed, "error").get("code") if is_object(parsed) else None
        words = (before, str(status) if isinstance(status, int) else "", said)
        return ": ".join(word for word in words if word) or value
    return value


def add_tokens(tokens: Tokens, more: Tokens) -> Tokens:
    return Tokens(tokens.input + more.input, tokens.output + more.output, tokens.cached + more.cached)


def toml_value(value: object) -> str:
    """JSON is TOML for what is used here, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
