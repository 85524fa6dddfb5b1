"""Where the members of an object and the items of an array stand in a JSON text, so that one can be replaced alone.

The text has to be valid JSON; what is not raises ValueError. Nothing is written anew: whoever edits cuts and joins.
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
        return (self.start if self.name_start < 0 else self.name_start), self.end


def members(text: str, at: int = 0) -> list[JsonSpan]:
    """The members of the object that begins at `at`, blanks before it allowed."""
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
    """The items of the array that begins at `at`."""
    found: list[JsonSpan] = []
    at = _position_after(text, at, "[")
    while text[at : at + 1] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(JsonSpan(at, end))
        at = _next_value(text, end, "]")
    return found


def without_span(text: str, spans: list[JsonSpan], index: int) -> str:
    """`text` without one of the `spans` of a container, and without the comma that held it."""
    start, end = spans[index].whole
    if index:
        return text[: spans[index - 1].end] + text[end:]
    if len(spans) > 1:
        return text[:start] + text[spans[1].whole[0] :]
    return text[:start].rstrip() + text[end:].lstrip()


def _position_after(text: str, at: int, mark: str) -> int:
    """Where what follows `mark` begins."""
    at = _skip_space(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark} was expected at character {at}")
    return _skip_space(text, at + 1)


def _next_value(text: str, end: int, closing: str) -> int:
    """Where the next value begins, or the closing bracket stands."""
    at = _skip_space(text, end)
    if text[at : at + 1] == closing:
        return at
    return _position_after(text, at, ",")


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
