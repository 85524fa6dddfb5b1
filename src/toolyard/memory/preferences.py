"""`preferences.yaml`: the user's preferences, one key a line. Comments and the order of the keys are preserved."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import cast

import yaml

from toolyard.config.yaml_tree import LocatedValue, Plain, parse_yaml
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.files.locked_document import UnreadableFile, decode_text

Preferences = dict[str, Plain]

MOST_PREFERENCES = 1_000
FILE_BYTES = 1 << 20
"""Smaller than for JSON: parsing YAML is many times slower, and every search parses this file."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_COMMENT_OR_BLANK = re.compile(r"\s*(#.*)?")


def parse(data: bytes) -> Preferences:
    located = _parse_located(decode_text(data))
    return {} if located is None else cast("Preferences", located.to_plain())


def _parse_located(text: str) -> LocatedValue | None:
    try:
        located = parse_yaml(text, name="line")
    except ConfigError as error:
        raise UnreadableFile(f"is not plain YAML: {error.message}") from None
    if located is not None and not isinstance(located.value, dict):
        if located.value is None:
            return None
        raise UnreadableFile("has to be keys and values, as in `language: Danish`")
    return located


def check_preference(key: str, value: object) -> None:
    """Raises ValidationError if the key is not a valid name or the value is not JSON."""
    if not _KEY.fullmatch(key):
        raise ValidationError.of(
            "key", "is not a valid name for a preference", hint="Use letters, digits, dots, dashes and underscores."
        )
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError.of("value", f"cannot be stored: {error}", hint="Use text, numbers, lists.") from None


def serialize(wanted: Preferences, before: bytes) -> bytes:
    """Rewrites only the differences in the previous text, or all of it if its form does not allow that."""
    if len(wanted) > MOST_PREFERENCES:
        raise ValidationError.of("key", f"there would be more than {MOST_PREFERENCES:,}", hint="Remove some.")
    text = decode_text(before)
    patched = _patch_text(text, wanted).encode("utf-8", "replace")
    try:
        if _is_same_json(parse(patched), wanted):
            return patched
    except UnreadableFile:
        pass
    dumped = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    comments = "".join(f"{line}\n" for line in text.splitlines() if line.lstrip().startswith("#"))
    return f"{comments}{dumped}".encode("utf-8", "replace")


def _patch_text(text: str, wanted: Mapping[str, Plain]) -> str:
    lines = text.splitlines()
    located = _parse_located(text)
    had = {} if located is None else cast("dict[str, LocatedValue]", located.value)
    starts = {} if located is None else {key: line - 1 for key, line in located.key_lines.items()}
    # From the end, so that the numbers of earlier lines stay valid.
    for key in sorted(had, key=lambda key: starts[key], reverse=True):
        if key in wanted and _is_same_json(had[key].to_plain(), wanted[key]):
            continue
        later = [line for line in starts.values() if line > starts[key]]
        end = _end_of_value(lines, starts[key], min(later, default=len(lines)))
        lines[starts[key] : end] = [_yaml_line(key, wanted[key])] if key in wanted else []
    lines += [_yaml_line(key, value) for key, value in wanted.items() if key not in had]
    return "".join(f"{line}\n" for line in lines)


def _end_of_value(lines: list[str], start: int, end: int) -> int:
    """Returns the end of a value: comments and blank lines before the next key belong to that key."""
    while end > start + 1 and _COMMENT_OR_BLANK.fullmatch(lines[end - 1]):
        end -= 1
    return end


def _yaml_line(key: str, value: Plain) -> str:
    return f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _is_same_json(one: Plain | Preferences, other: Plain | Preferences) -> bool:
    """Compares the JSON texts, because 1 and True are equal in Python."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
