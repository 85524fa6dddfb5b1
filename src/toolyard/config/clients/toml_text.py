"""Sets or removes one table of a TOML text and preserves every other byte.

The text is split into statements (a header, or a key with its value) and never reserialised. It must be valid TOML:
the caller (`entry_editor`) has parsed it, and verifies the result.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from toolyard.config.clients.json_text import LayoutError, detect_newline

_STRINGS: Final = (
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"[^"\\\n]*+(?>(?:\\.[^"\\\n]*+)*)"'
    r"|'[^'\n]*+'"
)
_BLANK: Final = re.compile(r"(?>(?:[ \t\r\n]++|#[^\n]*+)*)")
_VALUE: Final = re.compile(rf"{_STRINGS}|#[^\n]*?(?=\r?\n|\Z)|[\[\]{{}}\n]|[^\[\]{{}}\n#\"']++", re.DOTALL)
_HEADER: Final = re.compile(rf"\[\[?(?>(?:{_STRINGS}|[^\]\"'\n]++)*)\]\]?", re.DOTALL)
_PART: Final = re.compile(rf"[ \t]*({_STRINGS}|[A-Za-z0-9_-]+)[ \t]*(\.?)", re.DOTALL)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    start: int
    end: int
    """The end of its last character; a trailing comment and the line end are not part of it."""
    table: tuple[str, ...]
    key: tuple[str, ...] = ()
    """Empty for a header."""


def with_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Returns `text` with those keys in the table at `path`; a missing table is added at the end."""
    line = detect_newline(text)
    here = tuple(path)
    statements = [*_statements(text)]
    header = next((each for each in statements if each.table == here and not each.key), None)
    if header is None:
        if any((each.table + each.key)[: len(here)] == here for each in statements):
            raise LayoutError("the entry is not a table of its own")
        gap = "" if not text else line if text.endswith("\n") else line * 2
        body = "".join(f"{_format_key(key)} = {_format_value(value)}{line}" for key, value in values.items())
        return f"{text}{gap}[{'.'.join(map(_format_key, path))}]{line}{body}"
    for key, value in values.items():
        statements = [*_statements(text)]
        old = next((each for each in statements if each.table == here and each.key == (key,)), None)
        if old is not None:
            text = f"{text[: old.start]}{_format_key(key)} = {_format_value(value)}{text[old.end :]}"
            continue
        if any(each.table == here and each.key[:1] == (key,) for each in statements):
            raise LayoutError(f"`{key}` is spelled in parts")
        last = [each for each in statements if each.table == here][-1]
        at = _line_end(text, last.end)
        before = "" if text[:at].endswith("\n") else line
        text = f"{text[:at]}{before}{_format_key(key)} = {_format_value(value)}{line}{text[at:]}"
    return text


def without_table(text: str, path: Sequence[str]) -> str:
    """Returns `text` without the table at `path`, its subtables, and the blank line before each."""
    here = tuple(path)
    ours = [each for each in _statements(text) if (each.table + each.key)[: len(here)] == here]
    for start, end in reversed(_blocks(text, ours)):
        head, rest = text[:start], text[end:]
        blank = re.search(r"(?:\A|(?<=\n))[ \t]*\r?\n\Z", head)
        if blank and (not rest.strip() or re.match(r"[ \t]*\r?\n", rest)):
            head = head[: blank.start()]
        text = head + rest
    return text


def _blocks(text: str, statements: Sequence[_Statement]) -> list[tuple[int, int]]:
    """Returns the line ranges of each header with its keys; a statement outside our tables is its own range."""
    blocks: list[tuple[int, int]] = []
    for each in statements:
        start, end = text.rfind("\n", 0, each.start) + 1, _line_end(text, each.end)
        if blocks and each.key and _is_inside(each, statements):
            blocks[-1] = (blocks[-1][0], end)
        else:
            blocks.append((start, end))
    return blocks


def _is_inside(statement: _Statement, statements: Sequence[_Statement]) -> bool:
    return any(not each.key and each.table == statement.table for each in statements)


def _statements(text: str) -> Iterator[_Statement]:
    table: tuple[str, ...] = ()
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        if at >= len(text):
            return
        if text[at] == "[":
            found = _HEADER.match(text, at)
            if found is None:
                raise LayoutError("a header is never closed")
            table = _parse_dotted_name(found[0].strip("[]"))[0]
            yield _Statement(at, found.end(), table)
            at = found.end()
        else:
            key, length = _parse_dotted_name(text[at : _line_end(text, at)])
            end = _value_end(text, at + length)
            yield _Statement(at, end, table, key)
            at = end


def _parse_dotted_name(text: str) -> tuple[tuple[str, ...], int]:
    """Returns the dotted name at the beginning of `text`, and its length in the text."""
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        if found is None:
            raise LayoutError("a name was expected")
        parts.append(_unquote(found[1]))
        at = found.end()
        if not found[2]:
            return tuple(parts), at


def _unquote(part: str) -> str:
    return cast("str", tomllib.loads(f"x = {part}")["x"]) if part[0] in "\"'" else part


def _value_end(text: str, start: int) -> int:
    depth, end, at = 0, start, start
    while at < len(text):
        found = _VALUE.match(text, at)
        if found is None:
            raise LayoutError("a text is never closed")
        piece = found[0]
        at = found.end()
        if piece == "\n" and depth <= 0:
            break
        depth += (piece in "[{") - (piece in "]}")
        if not piece.startswith("#") and piece.strip():
            end = found.start() + len(piece.rstrip())
    return end


def _line_end(text: str, at: int) -> int:
    """Returns the position after the end of the line that contains `at`."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _format_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _format_value(key)


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a valid TOML string, except for DEL, which only JSON allows unescaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_format_value(item) for item in cast('Sequence[Any]', value))}]"
    return str(value)
