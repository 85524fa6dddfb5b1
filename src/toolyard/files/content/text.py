"""Decodes bytes to text and back, without losing one byte.

The contract is `encode(decode(data)) == data` for every input. The text keeps the file's own line endings; a byte
order mark is stored beside it. For text that is not UTF-8 and has no mark the encoding is guessed, and a guess is
used only if it gives the same bytes back; latin-1, which always does, is the last resort.

Only stateless codecs are used: each character has the same bytes wherever it occurs, so replacing part of the text
leaves the bytes of the rest unchanged.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

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
