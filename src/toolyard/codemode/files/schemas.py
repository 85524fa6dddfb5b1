"""Reads JSON Schemas that may be invalid anywhere. No function raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

Schema = Mapping[str, Any]

_MAX_MERGES = 16
"""Depth to which `allOf` and `$ref` are followed."""
_MAX_VARIANTS = 24

EMPTY: Schema = {}


def as_schema(value: Any) -> Schema:
    """Returns the value if it is an object, otherwise an empty schema."""
    if isinstance(value, dict):  # the usual case, and faster to check
        return cast("Schema", value)
    return cast("Schema", value) if isinstance(value, Mapping) else EMPTY


def as_list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()


def text_of(schema: Any, key: str) -> str:
    found = as_schema(schema).get(key)
    return found if isinstance(found, str) else ""


def properties(schema: Schema) -> Schema:
    return as_schema(schema.get("properties"))


def required_names(schema: Schema) -> tuple[str, ...]:
    """Returns the required names, each once. Includes `required: true` in properties, as in draft 3."""
    listed = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
    for name, inner in properties(schema).items():
        if isinstance(inner, Mapping) and cast("Schema", inner).get("required") is True:
            listed.append(name)
    return tuple(dict.fromkeys(listed))


def resolve_pointer(root: Any, pointer: str) -> Any:
    """Returns the target of a `$ref` in its own document, or None. Other documents are never fetched."""
    if not pointer.startswith("#"):
        return None
    found = root
    for part in pointer[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast("Schema", found).get(name)
        elif isinstance(found, list) and name.isdecimal() and name.isascii() and len(name) < 9:
            items = cast("list[Any]", found)
            found = items[int(name)] if int(name) < len(items) else None
        else:
            return None
    return found


def variants(schema: Schema) -> Sequence[Any]:
    """Returns the alternatives of `anyOf` or `oneOf`."""
    return as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))


def flatten_schema(root: Any, schema: Any, depth: int = 0) -> Schema:
    """Returns the schema with its top-level `$ref` and `allOf` merged in."""
    schema = as_schema(schema)
    if depth > _MAX_MERGES:
        return EMPTY
    pointer = schema.get("$ref")
    if isinstance(pointer, str):
        target = resolve_pointer(root, pointer)
        if isinstance(target, Mapping):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return _merge_schemas([rest, flatten_schema(root, target, depth + 1)])
    parts = as_list(schema.get("allOf"))
    if not parts:
        return schema
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    return _merge_schemas([rest, *(flatten_schema(root, part, depth + 1) for part in parts[:_MAX_VARIANTS])])


def _merge_schemas(parts: Sequence[Schema]) -> Schema:
    """Merges the schemas. If they disagree, the first one wins."""
    whole: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    needed: list[str] = []
    for part in parts:
        fields.update({key: value for key, value in properties(part).items() if key not in fields})
        needed += required_names(part)
        for key, value in part.items():
            whole.setdefault(key, value)
    if fields:
        whole["properties"] = fields
    if needed:
        whole["required"] = needed
    return whole


def join_alternatives(root: Any, schema: Any) -> tuple[Schema, tuple[tuple[str, ...], ...]]:
    """Returns an object's schema with the properties of all alternatives, and what each alternative requires."""
    base = flatten_schema(root, schema)
    options = [flatten_schema(root, option) for option in variants(base)[:_MAX_VARIANTS]]
    if not options:
        return base, ()
    needs = tuple(required_names(option) for option in options)
    common = [name for name in needs[0] if all(name in others for others in needs)]
    whole = dict(_merge_schemas([base, *options]))
    whole["required"] = list(dict.fromkeys([*required_names(base), *common]))
    return whole, needs if len(set(needs)) > 1 else ()
