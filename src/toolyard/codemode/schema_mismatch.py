"""Explains why a server may have refused a call: which arguments violate the tool's schema.

Checked after a refusal, never before a call. A schema is not authoritative: servers accept `"5"` for a number, have
defaults for required arguments, and list schemas that their own defaults violate. The server therefore decides, a
successful call costs nothing, and a refused one is explained as far as that is certain: missing and unknown
arguments, and types and enums at the top level. Everything else is left to the server's own message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.core.upstream import Json

_MAX_MISMATCHES = 8
_SHOWN_CHARS = 60
_SHOWN_VALUES = 8
_LARGEST_BITS = 128
_INCONCLUSIVE_KEYS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "nullable"})
"""Beside one of these keys, a type or an enum alone proves nothing."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_ARTICLES: Mapping[str, str] = {"integer": "an ", "array": "an ", "object": "an ", "null": ""}
"""Articles of the types that do not take `a`."""
_UNKNOWN_ARGUMENT = "There is no argument {!r}."


def schema_mismatches(schema: Json, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a sentence for each argument that certainly violates the schema."""
    properties: object = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ()
    known = cast("Mapping[str, Any]", properties)
    required: object = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    found = [f"The argument {name!r} is missing." for name in names if name in known and name not in arguments]
    for name, value in arguments.items():
        if name in known:
            found += _value_mismatches(name, value, known[name])
        elif schema.get("additionalProperties") is False and not _INCONCLUSIVE_KEYS & schema.keys():
            shown = name[:_SHOWN_CHARS]
            found.append(f"{_UNKNOWN_ARGUMENT.format(shown)} {did_you_mean(shown, known)}")
    more = len(found) - _MAX_MISMATCHES
    return (*found[:_MAX_MISMATCHES], f"And {more} more.") if more > 0 else tuple(found)


def add_mismatch_hint(error: ToolyardError, tool: str, found: Sequence[str]) -> ToolyardError:
    """Adds the mismatches to the hint of a refused call of `tool`. Other errors are returned unchanged."""
    if error.retryable or not isinstance(error, (ValidationError, ToolError)):
        return error
    fields = error.fields if isinstance(error, ValidationError) else ()
    named = tuple(
        _UNKNOWN_ARGUMENT.format(item.field) for item in fields if error.message.startswith(f"{item.field}:")
    )
    new = [line for line in found if line.rstrip(".") not in error.message and not (named and line.startswith(named))]
    if new:
        text = mismatch_text(tool, new)
        # A hint about named arguments continues the message and comes first; a server's hint is general.
        error.hint = f"{error.hint} {text}".lstrip() if fields else f"{text} {error.hint}".rstrip()
    return error


def mismatch_text(tool: str, found: Sequence[str]) -> str:
    return f"By the schema of {tool}: {' '.join(found)}"


def _value_mismatches(name: str, value: object, schema: object) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    wanted = cast("Mapping[str, Any]", schema)
    if _INCONCLUSIVE_KEYS & wanted.keys():
        return []
    kinds: object = wanted.get("type")
    listed = [kinds] if isinstance(kinds, str) else cast("list[object]", kinds) if isinstance(kinds, list) else []
    if listed and all(kind in _TYPES for kind in listed) and not any(_has_type(value, str(kind)) for kind in listed):
        return [f"{name!r} has to be {' or '.join(map(_with_article, listed))}, and is {_describe_value(value)}."]
    choices: object = wanted.get("enum")
    if isinstance(choices, list) and choices and value not in choices:
        values = cast("list[object]", choices)
        shown = ", ".join(json.dumps(item)[:_SHOWN_CHARS] for item in values[:_SHOWN_VALUES])
        more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
        return [f"{name!r} has to be one of {shown}{more}, and is {_describe_value(value)}."]
    return []


def _with_article(kind: object) -> str:
    return f"{_ARTICLES.get(str(kind), 'a ')}{kind}"


def _has_type(value: object, kind: str) -> bool:
    if isinstance(value, bool):  # an int in Python, but not in JSON
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _describe_value(value: object) -> str:
    """Describes a value briefly: it may be as large as a frame, and the loop waits."""
    if isinstance(value, str):
        text = json.dumps(value[:_SHOWN_CHARS], ensure_ascii=False)
        return f"the string {text}" + ("…" if len(value) > _SHOWN_CHARS else "")
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        return "a very large integer"
    return json.dumps(value, default=str)
