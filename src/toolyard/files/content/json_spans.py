"""Locates the members of objects and the items of arrays in a JSON text, so that a single one can be replaced.

The text must be valid JSON; otherwise ValueError is raised. Nothing is formatted again: the caller cuts and joins the
text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import cast

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class JsonSpan:
    """A value from `start` to `end`. A member of an object begins earlier, with its name at `name_start`."""

    start: int
    end: int
    name: str = ""
    name_start: int = -1

    @property
    def whole(self) -> tuple[int, int]:
        """Returns start and end, including the name of a member."""
        return (self.start if self.name_start < 0 else self.name_start), self.end


def members(text: str, at: int = 0) -> list[JsonSpan]:
    """Returns the members of the object that begins at `at`; leading whitespace is allowed."""
    found: list[JsonSpan] = []
    at = _position_after(text, at, "{")
    while text[at : at + 1] != "}":
        name_start = at
        if text[at : at + 1] != '"':
            raise ValueError(f"a name was expected at character {at}")
        name, at = _DECODER.raw_decode(text, at)
        at = _position_after(text, at, ":")
        _, end = _DECODER.raw_decode(text, at)
        found.append(JsonSpan(at, end, cast("str", name), name_start))
        at = _next_value(text, end, "}")
    return found


def items(text: str, at: int) -> list[JsonSpan]:
    """Returns the items of the array that begins at `at`."""
    found: list[JsonSpan] = []
    at = _position_after(text, at, "[")
    while text[at : at + 1] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(JsonSpan(at, end))
        at = _next_value(text, end, "]")
    return found


def without_span(text: str, spans: list[JsonSpan], index: int) -> str:
    """Returns `text` without one of the `spans` of a container and its comma."""
    start, end = spans[index].whole
    if index:
        return text[: spans[index - 1].end] + text[end:]
    if len(spans) > 1:
        return text[:start] + text[spans[1].whole[0] :]
    return text[:start].rstrip() + text[end:].lstrip()


def _position_after(text: str, at: int, mark: str) -> int:
    """Returns where the text after `mark` begins."""
    at = _skip_space(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark} was expected at character {at}")
    return _skip_space(text, at + 1)


def _next_value(text: str, end: int, closing: str) -> int:
    """Returns where the next value begins, or the position of the closing bracket."""
    at = _skip_space(text, end)
    if text[at : at + 1] == closing:
        return at
    return _position_after(text, at, ",")


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
