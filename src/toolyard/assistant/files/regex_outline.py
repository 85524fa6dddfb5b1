"""Outlines without a grammar: headings of documents, lines that look like definitions, or first and last lines.

Texts are read line by line, so that other threads can run however large a text is.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from toolyard.core.tokens import split_at_lines

LOOKED_AT_LINES: Final = 400_000
_MOST_ENTRIES: Final = 400
_COUNTED_LINES: Final = 50_000
"""Entries that are not shown are counted up to this line: counting all of a huge file would take seconds."""
_LINE_CHARS: Final = 200
GAP: Final = "..."
_FIRST_LINES: Final = 20
_LAST_LINES: Final = 5

NumberedLine = tuple[int, str]

_HEADINGS: Final = re.compile(r"#{1,6}\s|={1,6}\s+\S")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'#*+])\1{2,}\s*\Z")
_FENCE: Final = re.compile(r"\s{0,3}(```|~~~)")
_DEFINITIONS: Final = re.compile(
    r"\s{0,8}(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([a-z]+\))?|"
    r"open|override|sealed|data|inline|extern|unsafe|const|virtual|partial)\s+)*"
    r"(?:import|from|use|using|require|include|package|module|namespace|class|struct|enum|interface|trait|impl|"
    r"protocol|extension|record|object|type|typedef|def|defp|defmodule|fn|fun|func|function|sub|proc|procedure|"
    r"create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|index|trigger)|message|service|resource|"
    r"variable|output|data)\b[^=;]{1,160}",
    re.IGNORECASE,
)
_KEYS: Final = re.compile(r"[\w\"'\[.@][^\n]{0,120}?(?:[:=]|\])")
_RULES: Final = {
    "markdown": _HEADINGS,
    "text": _HEADINGS,
    **dict.fromkeys(("yaml", "toml", "ini", "make", "dockerfile"), _KEYS),
}
_NO_RULE: Final = frozenset({"", "csv", "log", "json", "xml", "html", "css", "tex"})


@dataclass(frozen=True, slots=True)
class Outline:
    """Entries of a file, and how many were left out."""

    entries: tuple[str, ...]
    """Lines as `12| text`, and a gap in between if only the first and last lines are shown."""
    left_out: int = 0
    """Number of entries that follow these."""
    looked_at: int = 0
    """The last line that was read, if the file continues; 0 if all of it was read."""

    @property
    def is_cut(self) -> bool:
        return bool(self.left_out or self.looked_at)

    @property
    def lines(self) -> tuple[str, ...]:
        """The entries, and a line on what was left out."""
        if not self.is_cut:
            return self.entries
        more = f"{self.left_out:,} more {'entry' if self.left_out == 1 else 'entries'}"
        unseen = f"everything after line {self.looked_at:,}"
        rest = ([more] if self.left_out else []) + ([unseen] if self.looked_at else [])
        return (*self.entries, f"[... {' and '.join(rest)} left out]")

    def truncate(self, count: int) -> Outline:
        """Returns the outline with only the first `count` entries."""
        rest = sum(entry != GAP for entry in self.entries[count:])
        return Outline(self.entries[:count], self.left_out + rest, self.looked_at)


def numbered_lines(text: str) -> Iterator[NumberedLine]:
    r"""Yields the lines of a text with `\n` line ends, with their numbers. Lines longer than a piece are cut."""
    number, rest = 0, ""
    for piece in split_at_lines(text):
        lines = piece.split("\n")
        lines[0] = rest + lines[0] if len(rest) < _LINE_CHARS else rest
        rest = lines.pop()
        for line in lines:
            number += 1
            yield number, line
    if rest:
        yield number + 1, rest


def outline_by_regex(text: str, language: str) -> Outline:
    """Returns the lines of the text that tell what is in it."""
    if language == "rst":
        found = _underlined_titles(text)
    elif language in _NO_RULE:
        found = iter(())
    else:
        found = _matching_lines(text, _RULES.get(language, _DEFINITIONS), fenced=language == "markdown")
    first = list(islice(found, _MOST_ENTRIES))
    if not first:
        return Outline(tuple(_first_and_last_lines(text)))
    left_out, counted = 0, max(first[-1][0], _COUNTED_LINES)
    looked_at = LOOKED_AT_LINES if text.count("\n", 0, len(text) - 1) >= LOOKED_AT_LINES else 0
    for number, _ in found:
        if number > counted:
            looked_at = counted
            break
        left_out += 1
    return Outline(tuple(_format_line(*each) for each in first), left_out, looked_at)


def _format_line(number: int, line: str) -> str:
    line = line.rstrip()
    return f"{number}| {line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + GAP}"


def _matching_lines(text: str, pattern: re.Pattern[str], *, fenced: bool) -> Iterator[NumberedLine]:
    is_code = False
    for number, line in numbered_lines(text):
        if number > LOOKED_AT_LINES:
            return
        if fenced and _FENCE.match(line):
            is_code = not is_code
        elif not is_code and pattern.match(line[:_LINE_CHARS]):
            yield number, line


def _underlined_titles(text: str) -> Iterator[NumberedLine]:
    before = ""
    for number, line in numbered_lines(text):
        if number > LOOKED_AT_LINES:
            return
        if before and not before[0].isspace() and _UNDERLINE.match(line[:_LINE_CHARS]):
            yield number - 1, before
        before = "" if _UNDERLINE.match(line[:_LINE_CHARS]) else line


def _first_and_last_lines(text: str) -> Iterator[str]:
    last: deque[NumberedLine] = deque(maxlen=_LAST_LINES)
    for number, line in numbered_lines(text):
        if number <= _FIRST_LINES:
            yield _format_line(number, line)
        else:
            last.append((number, line))
    if last and last[0][0] > _FIRST_LINES + 1:
        yield GAP
    yield from (_format_line(*each) for each in last)
