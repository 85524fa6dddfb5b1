r"""The text of a file: decodes bytes without losing one, and shows lines with their numbers, page by page.

The contract is `encode(decode(data)) == data` for every input. The text keeps the file's own line endings; a byte
order mark is stored beside it. For text that is not UTF-8 and has no mark the encoding is guessed, and a guess is
used only if it gives the same bytes back; latin-1, which always does, is the last resort.

Only stateless codecs are used: each character has the same bytes wherever it occurs, so replacing part of the text
leaves the bytes of the rest unchanged.

A page has the format of `cat -n`. A line ends at `\n`, `\r\n` or `\r` and nowhere else: form feeds and Unicode
separators are content. Lines are shown exactly as they are in the file, except that a very long one is cut, with a
note.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import Limits

Newline = Literal["\n", "\r\n", "\r", "mixed"]

# UTF-32's little-endian mark begins with UTF-16's, so it is tried first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARK_BYTES = tuple(mark for mark, _ in _MARKS)
_MARK_OF = {encoding: mark for mark, encoding in _MARKS}

_GUESSES = (
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "koi8_r",
    "cp932",
    "euc_jp",
    "gb18030",
    "big5",
    "cp949",
)
_SAMPLE_BEFORE = 1024
_SAMPLE_BYTES = 16 * 1024
_HIGH_BYTES_TO_GUESS = 16
"""With fewer non-ASCII bytes than this a statistical guess is noise, and Western European is more likely."""
_GOOD_TO_BAD = 4
"""With this many well-formed characters per broken byte a file is damaged UTF-8, not another encoding."""
_HIGH = bytes(range(128, 256))
_BROKEN = re.compile(r"[\udc80-\udcff]")
_BARE_LF = re.compile(r"(?<!\r)\n")
_NUMBER_CHARS = 7
"""The least that a number and its tab add to a line."""
_USUAL_NUMBERS = 2_001
EMPTY_NOTE = "The file exists but is empty."


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's exact text, and what is needed to write the same bytes again."""

    text: str
    encoding: str
    bom: bool
    newline: Newline
    final_newline: bool
    damaged: bool = False
    """UTF-8 with invalid bytes; those are lone surrogates in `text`, see `printable`."""

    @property
    def printable(self) -> str:
        """Returns the text for display: invalid bytes become U+FFFD, so that it can be sent as UTF-8."""
        return _BROKEN.sub("\ufffd", self.text) if self.damaged else self.text


def decode(data: bytes) -> TextFile:
    """Decodes `data`, in an encoding that gives the same bytes back."""
    if data.startswith(_MARK_BYTES) and (marked := _decode_marked(data)):
        return marked
    try:
        return _text_file(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        return _decode_unmarked(data, error.start)


def is_utf8(data: bytes) -> bool:
    """Returns whether `data` is plain UTF-8, so that no encoding has to be guessed."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encode(file: TextFile) -> bytes:
    """Returns the bytes of `file`. Raises UnicodeEncodeError if its encoding lacks a character."""
    body = file.text.encode(file.encoding, "surrogateescape" if file.damaged else "strict")
    return _MARK_OF[file.encoding] + body if file.bom else body


def newline_of(text: str) -> Newline:
    r"""Returns how the lines of `text` end; a text without line ends counts as `\n`."""
    if "\r" not in text:
        return "\n"
    pairs, returns, feeds = text.count("\r\n"), text.count("\r"), text.count("\n")
    if pairs == returns == feeds:
        return "\r\n"
    return "\r" if not feeds else "mixed"


def with_lf(text: str) -> str:
    r"""Returns `text` with every line end as `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def with_newline(text: str, newline: str) -> str:
    r"""Returns `text` with each bare `\n` as `newline`; an explicit `\r` stays."""
    return text if newline == "\n" or "\n" not in text else _BARE_LF.sub(newline, text)


def line_at(text: str, position: int, newline: Newline, *, known: tuple[int, int] = (0, 1)) -> int:
    """Returns the 1-based line of the character at `position`; `known` is an earlier (position, line) to start at."""
    start, line = known
    if newline != "mixed":
        return line + text.count(newline[-1], start, position)
    start, position = _before_pair(text, start), _before_pair(text, position)
    pairs = text.count("\r\n", start, position)
    return line + text.count("\n", start, position) + text.count("\r", start, position) - pairs


def _before_pair(text: str, position: int) -> int:
    r"""Returns `position`, moved to the `\r` if it is on the `\n` of a pair: one line end is not counted twice."""
    return position - 1 if text.startswith("\r\n", position - 1) and position else position


def _text_file(text: str, encoding: str, *, bom: bool = False, damaged: bool = False) -> TextFile:
    return TextFile(text, encoding, bom, newline_of(text), text.endswith(("\n", "\r")), damaged)


def _decode_marked(data: bytes) -> TextFile | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _decode_lossless(data[len(mark) :], encoding)
            if text is not None:
                return _text_file(text, encoding, bom=True)
    return None


def _decode_lossless(data: bytes, encoding: str) -> str | None:
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except UnicodeError:
        return None


def _decode_unmarked(data: bytes, first_bad: int) -> TextFile:
    repaired = data.decode("utf-8", "surrogateescape")
    # Counted without a list of them: ten million broken bytes would take a gigabyte.
    valid_chars = len(data.decode("utf-8", "ignore"))
    broken = len(repaired) - valid_chars
    well_formed = valid_chars - len(data.translate(None, _HIGH))
    if well_formed >= broken * _GOOD_TO_BAD:
        return _text_file(repaired, "utf-8", damaged=True)
    for encoding in (*_guess(data, first_bad), "cp1252"):
        text = _decode_lossless(data, encoding)
        if text is not None:
            return _text_file(text, encoding)
    return _text_file(data.decode("latin-1"), "latin-1")


def _guess(data: bytes, first_bad: int) -> tuple[str, ...]:
    """Returns the likeliest encoding of a bounded sample around the first byte that is not UTF-8, or none."""
    start = max(0, first_bad - _SAMPLE_BEFORE)
    sample = data[start : start + _SAMPLE_BYTES]
    if len(sample) - len(sample.translate(None, _HIGH)) < _HIGH_BYTES_TO_GUESS:
        return ()
    # Imported here: it is slow to import, and hardly any file needs it.
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=list(_GUESSES), preemptive_behaviour=False).best()
    return (best.encoding,) if best is not None and best.encoding in _GUESSES else ()


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
