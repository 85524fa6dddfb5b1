"""Recognises private keys over several lines: their beginning, their body and their end.

A key may stand in a comment, in quotes or in a quoted mail: the prefix of each line is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

# The start of a line is matched atomically, without backtracking: a line of `=` could match in a million ways.
_BEFORE = r"(?>[^A-Za-z0-9/+]{0,40})(?>(?:/{2,3}|rem\b|dnl\b)?)(?>[^A-Za-z0-9/]{0,40})"
_AFTER = r"(?:\\[nr])*[^A-Za-z0-9]{0,20}"
_NAME = r"(?:[A-Z0-9]+ ){0,5}PRIVATE KEY(?: BLOCK)?"
_BEGIN = re.compile(rf"-{{4,5}} ?BEGIN {_NAME} ?-{{4,5}}")
_END = re.compile(rf"-{{4,5}} ?END {_NAME} ?-{{4,5}}")
_BODY = re.compile(rf"{_BEFORE}(?>[A-Za-z0-9+/=]{{16,}}){_AFTER}", re.IGNORECASE)
_LAST = re.compile(
    r"[^A-Za-z0-9]{0,20}(?:(?:rem|dnl)\b\s{0,9})?[A-Za-z0-9+/=]{1,80}[^A-Za-z0-9]{0,20}", re.IGNORECASE
)
_HEADER = re.compile(rf"{_BEFORE}[A-Za-z][A-Za-z-]{{0,40}}: .*")
_BLANK = re.compile(r"[^A-Za-z0-9]{0,40}")
_ENCODED = re.compile(rf"{_BEFORE}(?P<text>(?>[A-Za-z0-9+/]{{40,}})={{0,2}}){_AFTER}", re.IGNORECASE)
_LEAST_DIFFERENT = 6
_LONGEST = 2_000
_KEY_WORDS = "PRIVATE KEY"
_LONGEST_NAME = 200
"""Characters around the words of the first line that are searched."""


class KeyPart(Enum):
    """The role of a line in a private key."""

    NONE = auto()
    BEGIN = auto()
    """The line where a key may begin; the text may also only mention the format."""
    FIRST = auto()
    """The first line of the body: now it is certain that this is a key."""
    INNER = auto()
    """A line that is masked but not reported, since its key was reported."""


@dataclass(slots=True)
class KeyTracker:
    """Classifies the lines of a text, one after the other."""

    _has_begun: bool = False
    _is_inside: bool = False

    def classify_line(self, line: str, *, follows: bool) -> KeyPart:
        """Returns the role of this line; `follows` says whether it directly follows the previous one."""
        if not follows:
            self._has_begun = self._is_inside = False
        if (begin := _find_begin(line)) is not None:
            self._has_begun, self._is_inside = _END.search(line, begin.end()) is None, False
            return KeyPart.BEGIN
        if len(line) > _LONGEST:
            self._has_begun = self._is_inside = False
            return KeyPart.NONE
        if self._has_begun:
            return self._after_begin(line)
        if self._is_inside:
            self._is_inside = _BODY.fullmatch(line) is not None
            return KeyPart.INNER if self._is_inside or _LAST.fullmatch(line) else KeyPart.NONE
        return KeyPart.NONE

    def _after_begin(self, line: str) -> KeyPart:
        if _BODY.fullmatch(line) is not None:
            is_filled_in = len(set(line)) >= _LEAST_DIFFERENT
            self._has_begun, self._is_inside = not is_filled_in, is_filled_in
            return KeyPart.FIRST if is_filled_in else KeyPart.INNER
        if _BLANK.fullmatch(line) is not None:
            return KeyPart.NONE
        is_header = _HEADER.fullmatch(line) is not None
        self._has_begun = is_header
        return KeyPart.INNER if is_header else KeyPart.NONE


def _find_begin(line: str) -> re.Match[str] | None:
    """Returns the match of the first line of a key.

    A long line is searched only around the words that every such line has: matching everywhere would block other
    threads.
    """
    if len(line) <= _LONGEST:
        return _BEGIN.search(line)
    at = line.find(_KEY_WORDS)
    while at >= 0:
        if (found := _BEGIN.search(line, max(at - _LONGEST_NAME, 0), at + _LONGEST_NAME)) is not None:
            return found
        at = line.find(_KEY_WORDS, at + 1)
    return None


def is_base64_line(line: str) -> bool:
    """Whether a line is nothing but base64, as the inner lines of keys are."""
    found = _ENCODED.fullmatch(line) if len(line) <= _LONGEST else None
    return found is not None and any(map(str.isalnum, found["text"]))
