"""Extracts lines of text from files that git treats as binary.

A file in UTF-16, or one with a single NUL, is binary to git and may contain a key like any other.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from toolyard.core.limits import KIB

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PIECE = 64 * KIB
"""Size of a piece: a longer one would block other threads."""
_OVERLAP = 512
_WIDE = re.compile(r"\0{1,3}(?=[^\0](?:\0|$))")
"""The NULs between two letters of UTF-16 or UTF-32."""
_PRINTABLE = re.compile(r"[\t\x20-\x7e]{8,}")


def extract_lines(data: bytes, check: Callable[[], None]) -> tuple[tuple[int, str], ...]:
    """Returns the lines with their numbers; of data that is not text, the readable parts.

    A byte order mark names the encoding, but anybody can write one: text that is readable without it is returned as
    well, if it differs.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" not in data:
        return tuple(enumerate(_lines(data, "utf-8", check), start=1))
    marked = list(enumerate(_lines(data, encoding, check), start=1)) if encoding else []
    known = {text.strip() for _, line in marked for text in _readable_parts(line)}
    plain = [
        (number, text)
        for number, line in enumerate(_lines(data, "latin-1", check), start=1)
        for text in _readable_parts(strip_nuls(line))
        if text.strip() not in known
    ]
    return (*marked, *plain)


def _readable_parts(line: str) -> Iterator[str]:
    for at in range(0, len(line), _PIECE):
        text = " ".join(_PRINTABLE.findall(line, at, at + _PIECE + _OVERLAP))
        if text:
            yield text


def decode_line(line: bytes) -> str:
    """Returns a line as text, without NULs."""
    if len(line) <= _PIECE:
        return strip_nuls(line.decode("utf-8", "replace"))
    return strip_nuls("".join(_pieces(line, "utf-8")))


def strip_nuls(text: str) -> str:
    """Removes the NULs between letters of a wide encoding; others become spaces."""
    if "\0" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        end = at + _PIECE
        while text[end - 1 : end] == "\0":  # the next character decides whether the NUL is removed
            end += 1
        parts.append(_WIDE.sub("", text[at:end]).replace("\0", " "))
        at = end
    return "".join(parts)


def _lines(data: bytes, encoding: str, check: Callable[[], None]) -> Iterator[str]:
    rest: list[str] = []
    for piece in _pieces(data, encoding):
        check()
        first, *others = piece.split("\n")
        rest.append(first)
        for line in others:
            yield "".join(rest).removesuffix("\r")
            rest = [line]
    yield "".join(rest)


def _pieces(data: bytes, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for at in range(0, len(data), _PIECE):
        yield decoder.decode(data[at : at + _PIECE])
    yield decoder.decode(b"", final=True)
