"""Describes the constraints of a schema in a few words: ranges, patterns, formats, defaults."""

from __future__ import annotations

import json
from typing import Any

from toolyard.codemode.files.literals import clip_text, normalize_text
from toolyard.codemode.files.schemas import Schema, as_schema, text_of

LONGEST_NOTE = 400
LONGEST_ARGUMENT_NOTE = 2_000
_LONGEST_FACT = 160
_PAIRS = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
_SINGLES = (("exclusiveMinimum", "> "), ("exclusiveMaximum", "< "), ("multipleOf", "a multiple of "))
_CONSTRAINT_KEYS = frozenset(
    {"format", "pattern", "uniqueItems", "deprecated"}
    | {key for low, high, _ in _PAIRS for key in (low, high)}
    | {key for key, _ in _SINGLES}
)


def describe_constraints(schema: Schema) -> list[str]:
    """Returns the constraints of a value, including those of its only alternative that is not null."""
    found = _own_constraints(schema)
    for group in ("anyOf", "oneOf"):
        options = schema.get(group)
        if isinstance(options, list):
            inner = [as_schema(option) for option in options if as_schema(option).get("type") != "null"]  # pyright: ignore[reportUnknownVariableType]
            if len(inner) == 1:
                found += _own_constraints(inner[0])
    return found


def _own_constraints(schema: Schema) -> list[str]:
    if _CONSTRAINT_KEYS.isdisjoint(schema):
        return []
    found: list[str] = []
    for low, high, unit in _PAIRS:
        least, most = _format_number(schema.get(low)), _format_number(schema.get(high))
        if least is not None and most is not None:
            found.append(f"{least} to {most}{unit}")
        elif least is not None:
            found.append(f"at least {least}{unit}")
        elif most is not None:
            found.append(f"at most {most}{unit}")
    for key, words in _SINGLES:
        bound = _format_number(schema.get(key))
        if bound is not None:
            found.append(f"{words}{bound}")
    for key in ("format", "pattern"):
        text = text_of(schema, key)
        if text:
            found.append(f"{key} {clip_text(text, _LONGEST_FACT)}")
    if schema.get("uniqueItems") is True:
        found.append("each once")
    if schema.get("deprecated") is True:
        found.append("deprecated")
    return found


def annotated_description(schema: Any, *, default: Any = ..., longest: int = LONGEST_NOTE) -> str:
    """Returns the description with the constraints in brackets. `default` is one that the signature cannot show."""
    known = as_schema(schema)
    text = clip_text(normalize_text(text_of(known, "description")) or "", longest)
    found = describe_constraints(known)
    if default is not ...:
        found.append(f"default {clip_text(json.dumps(default, ensure_ascii=False), _LONGEST_FACT)}")
    if not found:
        return text
    return f"{text} ({'; '.join(found)})".lstrip()


def _format_number(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return f"{value:.12g}" if isinstance(value, float) else str(value)
    except ValueError:  # more digits than Python converts
        return None
