r"""Shows text with line numbers, page by page, in the format of `cat -n`.

A line ends at `\n`, `\r\n` or `\r` and nowhere else: form feeds and Unicode separators are content. Lines are shown
exactly as they are in the file, except that a very long one is cut, with a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.content.text import with_lf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolyard.core.limits import Limits
    from toolyard.files.content.text import TextFile

_NUMBER_CHARS = 7
"""The least that a number and its tab add to a line."""
_USUAL_NUMBERS = 2_001
EMPTY_NOTE = "The file exists but is empty."


@dataclass(frozen=True, slots=True)
class TextPage:
    """Some lines of a file. `text` is the numbered lines alone; `note` says what is missing and how to get it."""

    text: str
    raw: str
    """The same lines without numbers, each with a line feed at its end if the file has one."""
    note: str
    first_line: int
    line_count: int
    total_lines: int
    truncated: bool


def text_page(file: TextFile, offset: int | None, limit: int | None, limits: Limits) -> TextPage:
    """Returns at most `limit` lines of `file` from line `offset` (1-based) on, within the limits."""
    first = _first_line(offset)
    if limit is not None and limit < 1:
        raise ValidationError.of(
            "limit", f"must be at least 1, not {limit}", hint="Leave it out to get the usual page."
        )
    text = with_lf(file.printable)
    total = text.count("\n") + (bool(text) and not file.final_newline)
    if not total and first == 1:
        return TextPage("", "", EMPTY_NOTE, 1, 0, 0, truncated=False)
    if first > total:
        raise ToolError(
            f"Line {first} is past the end: the file has {total} {'line' if total == 1 else 'lines'}.",
            hint=f"Use an offset from 1 to {total}." if total else "The file is empty; there is nothing to read.",
        )
    wanted = min(limits.read_lines if limit is None else limit, total - first + 1)
    lines = _lines_from(text, first, wanted)
    lines, cut = cut_long_lines(lines, min(limits.line_chars, max(1, limits.output_chars - _NUMBER_CHARS)))
    shown, count = _numbered_within(lines, first, limits.output_chars)
    last = first + count - 1
    ends_open = last == total and not file.final_newline
    return TextPage(
        shown,
        "\n".join(lines[:count]) + "\n" * (not ends_open),
        _note(first, last, total, cut, limits),
        first,
        count,
        total,
        truncated=bool(cut) or first > 1 or last < total,
    )


def number_lines(lines: Sequence[str], first: int, line_chars: int) -> str:
    """Returns `lines` with their numbers from `first` on, each cut to `line_chars`."""
    cut, _ = cut_long_lines(list(lines), line_chars)
    return "\n".join(_with_numbers(cut, first))


def lines_around(text: str, position: int, before: int, count: int) -> tuple[int, list[str]]:
    r"""Returns up to `count` lines, starting `before` lines above `position`, and how many lines above there were.

    Expects `\n` or `\r\n` line ends.
    """
    start, above = text.rfind("\n", 0, position) + 1, 0
    while above < before and start:
        start = text.rfind("\n", 0, start - 1) + 1
        above += 1
    end = start
    for _ in range(count):
        end = text.find("\n", end) + 1
        if not end:
            return above, _split(text[start:].removesuffix("\n")) if start < len(text) else []
    return above, _split(text[start : end - 1])


def _split(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\r").split("\n")


def _first_line(offset: int | None) -> int:
    if offset is not None and offset < 0:
        raise ValidationError.of("offset", f"must not be negative, not {offset}", hint="Lines are counted from 1.")
    # Models that count from 0 mean the first line.
    return max(1, offset or 1)


def _lines_from(text: str, first: int, count: int) -> list[str]:
    """Returns `count` lines from line `first` on, without splitting all of a big file."""
    start = _start_of(text, first) if first > 1 else 0
    parts = text[start:].split("\n", count) if start else text.split("\n", count)
    return parts[:count]


def _start_of(text: str, line: int) -> int:
    """Returns where `line` begins, by binary search: each half is counted once, at the speed of C."""
    low, high, missing = 0, len(text), line - 1
    while high - low > 1:
        middle = (low + high) // 2
        feeds = text.count("\n", low, middle)
        if feeds >= missing:
            high = middle
        else:
            low, missing = middle, missing - feeds
    return high


def cut_long_lines(lines: list[str], max_chars: int) -> tuple[list[str], int]:
    """Returns the lines with long ones cut, and how many were cut."""
    if not lines or max(map(len, lines)) <= max_chars:
        return lines, 0
    cut = sum(len(line) > max_chars for line in lines)
    return [
        line if len(line) <= max_chars else f"{line[:max_chars]}... [cut: {max_chars} of {len(line)} characters]"
        for line in lines
    ], cut


def _numbered_within(lines: list[str], first: int, most_chars: int) -> tuple[str, int]:
    """Returns the numbered lines that fit in `most_chars`, and how many; at least one, so that paging advances."""
    shown = _with_numbers(lines, first)
    text = "\n".join(shown)
    if len(text) <= most_chars:
        return text, len(shown)
    fitting, length = 0, -1
    for line in shown:
        length += len(line) + 1
        if length > most_chars:
            break
        fitting += 1
    fitting = max(1, fitting)
    return "\n".join(shown[:fitting]), fitting


def _with_numbers(lines: list[str], first: int) -> list[str]:
    past = first + len(lines)
    if past > _USUAL_NUMBERS:
        return [f"{n:6d}\t{line}" for n, line in enumerate(lines, first)]
    return [number + line for number, line in zip(_usual_numbers()[first:past], lines, strict=True)]


@cache
def _usual_numbers() -> tuple[str, ...]:
    """Returns the numbers that nearly every page needs, formatted once: that is most of the cost of a page."""
    return tuple(f"{n:6d}\t" for n in range(_USUAL_NUMBERS))


def _note(first: int, last: int, total: int, cut: int, limits: Limits) -> str:
    notes: list[str] = []
    if first > 1 or last < total:
        notes.append(
            f"Lines {first}-{last} of {total}" + (f"; use offset={last + 1} to read on." if last < total else ".")
        )
    if cut:
        lines = "1 line" if cut == 1 else f"{cut} lines"
        notes.append(f"{lines} longer than {limits.line_chars} characters cut; search for text to see the rest.")
    return " ".join(notes)
