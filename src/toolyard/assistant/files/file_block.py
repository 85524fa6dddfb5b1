"""Renders a file for a model: numbered lines between two boundary lines that the file cannot contain.

Every line of the file starts with its number, and the boundary lines start with a mark that is derived from the file
and does not occur in it. The same file is always rendered the same, so that providers can cache the prompt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from toolyard.assistant.files.sources import SourceFile
from toolyard.core.tokens import split_at_lines

_MARK_BYTES = 6


def boundary_lines(source: SourceFile, what: str) -> tuple[str, str]:
    """Returns the lines before and after a file; `what` names what is between them."""
    mark = _mark(source)
    return f"[{mark}] {what} {source.path}, {_line_count(source)}\n", f"[{mark}] end of {source.path}\n"


def number_lines(text: str) -> Iterator[str]:
    """Yields the text as `1| first line` and so on, in pieces; every line ends in a line feed."""
    number, is_begun = 1, False
    for piece in split_at_lines(text):
        lines = piece.split("\n")
        if lines[-1] == "":
            lines.pop()
        shown = [line if is_begun and not at else f"{number + at}| {line}" for at, line in enumerate(lines)]
        is_begun = not piece.endswith("\n")
        number += len(lines) - is_begun
        yield "\n".join(shown) + ("" if is_begun else "\n")
    if is_begun:
        yield "\n"


def _line_count(source: SourceFile) -> str:
    if not source.lines:
        return "an empty file"
    return "1 line" if source.lines == 1 else f"{source.lines:,} lines"


def _mark(source: SourceFile) -> str:
    digest = hashlib.blake2b(f"{source.digest}\0{source.path}".encode("utf-8", "replace"), digest_size=_MARK_BYTES)
    while digest.hexdigest() in source.text:
        digest.update(b"again")
    return digest.hexdigest()
