"""Infers the schema of results from one of them, for tools that declare no output.

The tool file marks it as inferred. It is kept small: objects whose keys look like data (too many, or not names)
become plain mappings, lists are described by what their first items have in common, and depth and length are limited.
It contains no values of the result.
"""

from __future__ import annotations

import json
from typing import Any, cast

from toolyard.core.upstream import Json, UpstreamResult

_DEPTHS = (5, 3, 2, 1)
"""Depths to try; the first that gives a short enough schema is used."""
_MAX_CHARS = 8_000
"""Size of the schema as JSON. About a third of it appears in the tool file."""
_MAX_KEYS = 40
_LONGEST_KEY = 60
_MAX_SAMPLED_ITEMS = 20
_LONGEST_TEXT = 100_000
_MAX_PARTS = 5_000
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def infer_result_schema(answer: UpstreamResult) -> Json | None:
    """Returns the schema of `structured`, or of JSON in the only text block. None if there is nothing to infer."""
    if answer.is_error:
        return None
    value = answer.structured if answer.structured is not None else _parse_text_json(answer)
    if not isinstance(value, (dict, list)) or not value or _is_large(cast("object", value)):
        return None
    shapes = (_value_schema(cast("object", value), depth) for depth in _DEPTHS)
    return next((shape for shape in shapes if len(json.dumps(shape)) <= _MAX_CHARS), None)


def _is_large(value: object) -> bool:
    """Whether a result has too many parts to examine: it may be a whole database."""
    waiting, count = [value], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += cast("dict[str, object]", part).values()
        elif isinstance(part, list):
            waiting += cast("list[object]", part)
        count += 1
        if count + len(waiting) > _MAX_PARTS:
            return True
    return False


def _parse_text_json(answer: UpstreamResult) -> object:
    if len(answer.content) != 1 or answer.content[0].get("type") != "text":
        return None
    text = str(answer.content[0].get("text", ""))
    if len(text) > _LONGEST_TEXT or text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _value_schema(value: object, depth: int) -> dict[str, Any]:
    """Returns the schema of a value. `depth` is the number of further levels."""
    kind = _SCALARS.get(cast("type[None]", type(value)))
    if kind is not None:
        return {"type": kind}
    if depth == 0:
        return {}
    if isinstance(value, list):
        items = [_value_schema(item, depth - 1) for item in cast("list[object]", value)[:_MAX_SAMPLED_ITEMS]]
        return {"type": "array", "items": _common_schema(items)} if items else {"type": "array"}
    return _object_schema(cast("dict[str, object]", value), depth)


def _object_schema(value: dict[str, object], depth: int) -> dict[str, Any]:
    named = len(value) <= _MAX_KEYS and all(key.isidentifier() and len(key) <= _LONGEST_KEY for key in value)
    if not named:
        schemas = [_value_schema(item, depth - 1) for item in list(value.values())[:_MAX_SAMPLED_ITEMS]]
        return {"type": "object", "additionalProperties": _common_schema(schemas)}
    properties = {key: _value_schema(item, depth - 1) for key, item in value.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _common_schema(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns one schema for all: a union of types; objects are merged, with the keys required that all have."""
    different = list({json.dumps(schema, sort_keys=True): schema for schema in schemas}.values())
    if len(different) == 1:
        return different[0]
    objects = [schema for schema in different if "properties" in schema]
    others = [schema for schema in different if "properties" not in schema]
    merged = [_merge_objects(objects)] if objects else []
    return merged[0] if merged and not others else {"anyOf": [*merged, *others]}


def _merge_objects(objects: list[dict[str, Any]]) -> dict[str, Any]:
    keys = dict.fromkeys(key for schema in objects for key in schema["properties"])
    properties = {
        key: _common_schema([schema["properties"][key] for schema in objects if key in schema["properties"]])
        for key in keys
    }
    required = [key for key in keys if all(key in schema["properties"] for schema in objects)]
    return {"type": "object", "properties": properties, "required": required}
