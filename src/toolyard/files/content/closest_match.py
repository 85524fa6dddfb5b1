"""Finds the text in a file that is closest to what an edit asked for, and describes how the two differ.

Time is bounded whatever the file: some words of the wanted text are looked up in the file (at most SCAN_CHARS read in
all), each occurrence votes for a window of lines, and only a few windows are compared closely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.files.content.text import number_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCAN_CHARS = 32_000_000
_HEAD_CHARS = 4_000
_HEAD_LINES = 40
_TOKENS = 8
_PLACES = 24
_WINDOWS = 6
_COMPARED_TOKENS = 200
_ALIKE = 0.5
_LOOKBACK_CHARS = 8_000
_EXCERPT_LINES = 12
_EXCERPT_LINE_CHARS = 300
_QUOTED_CHARS = 60

_WORD = re.compile(r"\w{3,}")
_ANYTHING = re.compile(r"\S{2,}")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SPACES = re.compile(r"\s+")
_PASTED = re.compile(r"^ *\d+(?:\t|\u2192)", re.MULTILINE)
_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2026": "...",
        "\u00a0": " ",
        "\u202f": " ",
        "\u200b": None,
        "\ufeff": None,
    }
)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The closest text. `exact` says that only the named difference prevents a match."""

    first_line: int
    last_line: int
    excerpt: str
    diagnosis: str
    exact: bool

    @property
    def one_line(self) -> bool:
        return self.first_line == self.last_line


def find_closest(text: str, wanted: str) -> NearMiss | None:
    r"""Returns the text closest to `wanted`, which does not occur. Both have `\n` line ends."""
    for diagnosis, repaired in _repairs(wanted):
        at = text.find(repaired) if repaired.strip() and repaired != wanted else -1
        if at >= 0:
            return _near_miss(text, at, repaired.count("\n") + 1, diagnosis, exact=True)
    head = "\n".join(wanted[:_HEAD_CHARS].split("\n")[:_HEAD_LINES])
    lines = head.count("\n") + (not head.endswith("\n"))
    best: tuple[float, int] | None = None
    for start in _windows(text, head):
        window = _window(text, start, lines)
        for same_when, diagnosis in _DIFFERENCES:
            if same_when(head).strip("\n") in same_when(window):
                return _near_miss(text, start, lines, diagnosis(head, window), exact=len(head) == len(wanted))
        alike = _similarity(head, window)
        if alike >= _ALIKE and (best is None or alike > best[0]):
            best = alike, start
    if best is None:
        return None
    return _near_miss(text, best[1], lines, _first_difference(head, _window(text, best[1], lines)), exact=False)


def _repairs(wanted: str) -> Iterator[tuple[str, str]]:
    """Yields the mistakes that models are known to make, undone: a description, and the corrected text."""
    if len(_PASTED.findall(wanted)) == wanted.rstrip("\n").count("\n") + 1:
        yield "line numbers from Read were pasted in; the file does not have them", _PASTED.sub("", wanted)
    if "\\" in wanted:
        plain = wanted.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\'", "'")
        yield "the text was escaped once too often (a backslash that the file does not have)", plain
        yield "the text was escaped once too often (doubled backslashes)", wanted.replace("\\\\", "\\")
    if "&" in wanted:
        from html import unescape

        yield "the text has HTML entities such as &lt; where the file has the characters", unescape(wanted)
    yield "old_string has blank lines or spaces around it that the file does not have", wanted.strip()


def _windows(text: str, head: str) -> list[int]:
    """Returns where windows worth comparing begin, the most promising first."""
    votes: dict[int, float] = {}
    scans = max(1, SCAN_CHARS // max(1, len(text)))
    for token, line in _longest_words(head)[: min(_TOKENS, scans)]:
        places = _places(text, token)
        for at in places:
            start = _start_of_window(text, at, line)
            votes[start] = votes.get(start, 0) + 1 / len(places)
    return sorted(votes, key=lambda start: (-votes[start], start))[:_WINDOWS]


def _longest_words(head: str) -> list[tuple[str, int]]:
    """Returns words of `head` with their line, longest first: a long word is seldom a common one."""
    pattern = _WORD if _WORD.search(head) else _ANYTHING
    found: dict[str, int] = {}
    for line, content in enumerate(head.split("\n")):
        for match in pattern.finditer(content):
            found.setdefault(match.group(), line)
    return sorted(found.items(), key=lambda item: (-len(item[0]), item[1]))


def _places(text: str, token: str) -> list[int]:
    places: list[int] = []
    at = text.find(token)
    while at >= 0 and len(places) < _PLACES:
        places.append(at)
        at = text.find(token, at + len(token))
    return places


def _start_of_window(text: str, at: int, lines_above: int) -> int:
    """Returns where the line `lines_above` the one at `at` begins, within a limited distance."""
    floor = max(0, at - _LOOKBACK_CHARS)
    for _ in range(lines_above + 1):
        feed = text.rfind("\n", floor, at)
        if feed < 0:
            return floor
        at = feed
    return at + 1


def _window(text: str, start: int, lines: int) -> str:
    chunk = text[start : start + _HEAD_CHARS * 2 + _LOOKBACK_CHARS]
    return "\n".join(chunk.split("\n", lines)[:lines])


def _near_miss(text: str, start: int, lines: int, diagnosis: str, *, exact: bool) -> NearMiss:
    first = 1 + text.count("\n", 0, start)
    line_start = text.rfind("\n", max(0, start - _LOOKBACK_CHARS), start) + 1 or max(0, start - _QUOTED_CHARS)
    line_start = 0 if first == 1 and start <= _LOOKBACK_CHARS else line_start
    found = _window(text, line_start, lines).split("\n")
    excerpt = number_lines(found[:_EXCERPT_LINES], first, _EXCERPT_LINE_CHARS)
    if len(found) > _EXCERPT_LINES:
        excerpt += f"\n... [{len(found) - _EXCERPT_LINES} more lines]"
    return NearMiss(first, first + len(found) - 1, excerpt, diagnosis, exact)


def _similarity(head: str, window: str) -> float:
    from difflib import SequenceMatcher

    one, other = _TOKEN.findall(head)[:_COMPARED_TOKENS], _TOKEN.findall(window)[:_COMPARED_TOKENS]
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _first_difference(head: str, window: str) -> str:
    wanted, found = head.split("\n"), window.split("\n")
    for index, (mine, theirs) in enumerate(zip(wanted, found, strict=False)):
        if mine.strip() != theirs.strip() and (index or not theirs.endswith(mine)):
            return f"old_string has {_quote_line(mine)} where the file has {_quote_line(theirs)}"
    return "only a part of it agrees"


def _quote_line(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= _QUOTED_CHARS else f"{line[:_QUOTED_CHARS]}...")


def _without_trailing(text: str) -> str:
    return "\n".join([line.rstrip() for line in text.split("\n")])


def _without_indent(text: str) -> str:
    return "\n".join([line.strip() for line in text.split("\n")])


def _without_spaces(text: str) -> str:
    return _SPACES.sub("", text)


def _plain_typography(text: str) -> str:
    return _without_spaces(text.translate(_TYPOGRAPHY))


def _any_case(text: str) -> str:
    return _plain_typography(text).casefold()


def _about_trailing(head: str, window: str) -> str:  # noqa: ARG001 - one shape for all diagnoses
    return "trailing whitespace differs at the end of a line"


def _about_indent(head: str, window: str) -> str:
    mine, theirs = _indent_of(head), _indent_of(window)
    if mine != theirs and mine and theirs:
        return f"the indentation differs: the file uses {theirs}, old_string {mine}"
    return "the indentation differs"


def _indent_of(text: str) -> str:
    starts = {line[0] for line in text.split("\n") if line[:1] in {" ", "\t"}}
    return {frozenset("\t"): "tabs", frozenset(" "): "spaces"}.get(
        frozenset(starts), "tabs and spaces" if starts else ""
    )


def _about_spaces(head: str, window: str) -> str:  # noqa: ARG001
    return "whitespace differs inside the lines or in blank lines"


def _about_typography(head: str, window: str) -> str:
    if head.translate(_TYPOGRAPHY) == head:
        return "the file has curly quotes or other typographic characters where old_string has plain ones"
    if window.translate(_TYPOGRAPHY) == window:
        return "old_string has curly quotes or other typographic characters where the file has plain ones"
    return "curly quotes or other typographic characters differ"


def _about_case(head: str, window: str) -> str:  # noqa: ARG001
    return "upper and lower case differ"


_DIFFERENCES: tuple[tuple[Callable[[str], str], Callable[[str, str], str]], ...] = (
    (_without_trailing, _about_trailing),
    (_without_indent, _about_indent),
    (_without_spaces, _about_spaces),
    (_plain_typography, _about_typography),
    (_any_case, _about_case),
)
