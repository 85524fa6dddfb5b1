"""Extracts the JSON from a model's reply, whatever surrounds it: prose, code fences, thoughts. Pure functions.

Accepts what Python's `json` does, plus line breaks in strings and a trailing comma before a closing bracket. Nothing
is completed or guessed: a truncated reply is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, cast

from toolyard.core.errors import ToolError

MOST_CHARS = 1_000_000
_MOST_TRIES = 10_000
_MOST_COMMAS = 20
_THOUGHTS = (("<think>", "</think>"), ("<thinking>", "</thinking>"))
_FENCES = ("```", "~~~")
_BYTE_ORDER_MARK = "\ufeff"
_OPENING_BRACKET = re.compile(r"[{\[]")
_SPACES = frozenset(" \t\r\n")


class NotJson(ToolError):  # noqa: N818 - describes the reply
    """The reply does not contain the requested JSON; `reason` is sent to the model, which may try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The model's reply is not the requested JSON: {reason}.", hint="Ask again.")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Candidate:
    value: object
    size: int


def extract_json(text: str) -> object:
    """Returns the value, the longest one if there are several. Raises NotJson."""
    if len(text) > MOST_CHARS:
        raise NotJson(f"it is longer than {MOST_CHARS:,} characters")
    text = _without_thoughts(text.strip(f"{_BYTE_ORDER_MARK} \t\r\n"))
    if not text:
        raise NotJson("it is empty")
    value = _parse_whole(text)
    if value is _NOTHING:
        value = _parse_only_block(text)
    return _longest_value(text) if value is _NOTHING else value


def fenced_blocks(text: str) -> tuple[str, ...]:
    """Returns the contents of the code blocks of a reply. A block that is not closed extends to the end."""
    blocks: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = line.strip()
        if not fence:
            if mark.startswith(_FENCES):
                fence, lines = mark[:3], []
        elif mark.startswith(fence) and not mark.strip(fence[0]):
            blocks.append("\n".join(lines))
            fence = ""
        else:
            lines.append(line)
    if fence:
        blocks.append("\n".join(lines))
    return tuple(blocks)


def _without_thoughts(text: str) -> str:
    """Returns the text after the thoughts if the reply starts with them. Some models omit the opening tag."""
    for begin, end in _THOUGHTS:
        if text.startswith(begin):
            _, ended, rest = text.partition(end)
            if not ended:
                raise NotJson("it ends within the model's thoughts")
            return rest.strip()
    for _, end in _THOUGHTS:
        if end in text and not text.startswith(("{", "[")):
            return text.partition(end)[2].strip()
    return text


_NOTHING = object()


def _parse_only_block(text: str) -> object:
    """Returns the value of the only code block, if no other JSON value surrounds it."""
    blocks = fenced_blocks(text)
    if len(blocks) != 1 or _next_opening(text.replace(blocks[0], "", 1), 0) >= 0:
        return _NOTHING
    return _parse_whole(blocks[0])


def _parse_whole(text: str) -> object:
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _longest_value(text: str) -> object:
    """Returns the longest object or array in `text`. Raises NotJson if a longer one is malformed."""
    best = _Candidate(_NOTHING, 0)
    broken, why = 0, ""
    at, commas = 0, iter(range(_MOST_COMMAS))  # shared by the whole text: removing one copies the text
    for _ in range(_MOST_TRIES):
        at = _next_opening(text, at)
        if at < 0:
            break
        try:
            value, end, text = _decode(text, at, commas)
        except json.JSONDecodeError as error:
            reached = max(error.pos, at + 1)
            if reached - at > broken:
                broken, why = reached - at, f"{error.msg} at line {error.lineno}, column {error.colno}"
            at = reached
            continue
        if end - at > best.size:
            best = _Candidate(value, end - at)
        at = end
    if best.value is _NOTHING or broken > best.size:
        raise NotJson(why or "there is no JSON in it")
    return best.value


def _decode(text: str, at: int, commas: Iterator[int]) -> tuple[object, int, str]:
    """Returns the value at `at`, its end, and the text without the trailing commas before its end."""
    while True:
        try:
            value, end = _raw_decode(text, at)
        except json.JSONDecodeError as error:
            comma = _trailing_comma(text, error.pos)
            if comma < 0:
                raise
            if next(commas, None) is None:
                raise NotJson("it has too many commas before closing brackets") from None
            text = text[:comma] + text[comma + 1 :]
        else:
            return value, end, text


def _trailing_comma(text: str, at: int) -> int:
    """Returns the position of the comma that `json` failed at; -1 for any other error.

    Not all versions report its position.
    """
    comma = at if text.startswith(",", at) else _skip_spaces(text, at, -1)
    after = _skip_spaces(text, comma, 1)
    return comma if text.startswith(",", comma) and text.startswith(("}", "]"), after) else -1


def _skip_spaces(text: str, at: int, step: int) -> int:
    """Returns the next position from `at`, in the direction of `step`, that is not a space."""
    at += step
    while 0 < at < len(text) and text[at] in _SPACES:
        at += step
    return at


def _next_opening(text: str, at: int) -> int:
    found = _OPENING_BRACKET.search(text, at)
    return found.start() if found else -1


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_reject_constant)


def _loads(text: str) -> object:
    return cast("object", _DECODER.decode(text.strip()))


def _raw_decode(text: str, at: int) -> tuple[object, int]:
    try:
        return cast("tuple[object, int]", _DECODER.raw_decode(text, at))
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:  # such as a number with thousands of digits
        raise NotJson(str(error)) from None
