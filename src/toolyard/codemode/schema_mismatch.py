"""Why a server may have refused a call: which arguments differ from the tool's schema, in words.

Looked for after a refusal, never before a call. A schema is not the last word: servers take `"5"` for a number, have
defaults for what they call required, and list schemas that their own defaults break. So the server judges, a call
that works costs nothing, and one that was refused is explained as far as that is certain: missing and unknown
arguments, types and enums of the root. What a schema says in any other way is left to the server's own words.
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
"""Where one of these stands beside it, a type or an enum alone decides nothing."""
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
"""Of the types that are not `a` something."""
_UNKNOWN_ARGUMENT = "There is no argument {!r}."


def schema_mismatches(schema: Json, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence for each argument that is certain not to be what the schema asks for."""
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
    """A refusal of a call of `tool` with what may be the reasons in its hint; any other error as it is."""
    if error.retryable or not isinstance(error, (ValidationError, ToolError)):
        return error
    fields = error.fields if isinstance(error, ValidationError) else ()
    named = tuple(
        _UNKNOWN_ARGUMENT.format(each.field) for each in fields if error.message.startswith(f"{each.field}:")
    )
    new = [line for line in found if line.rstrip(".") not in error.message and not (named and line.startswith(named))]
    if new:
        said = mismatch_text(tool, new)
        # A hint about the arguments that the message names goes on from it; one of a server's refusal is general.
        error.hint = f"{error.hint} {said}".lstrip() if fields else f"{said} {error.hint}".rstrip()
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
        shown = ", ".join(json.dumps(each)[:_SHOWN_CHARS] for each in values[:_SHOWN_VALUES])
        more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
        return [f"{name!r} has to be one of {shown}{more}, and is {_describe_value(value)}."]
    return []


def _with_article(kind: object) -> str:
    return f"{_ARTICLES.get(str(kind), 'a ')}{kind}"


def _has_type(value: object, kind: str) -> bool:
    if isinstance(value, bool):  # which is an int to Python, and none to JSON
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _describe_value(value: object) -> str:
    """Never much of it: a value may be as large as a frame, and the loop waits."""
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
