"""Reads one-line errors of compilers and checkers, `src/prices.c:10:5: error: ...`, as traces of one frame.

Warnings and notes are ignored: they are not the cause of a failure.
"""

from __future__ import annotations

import re

from toolyard.assistant.traces.locations import SourceLocation, is_number, language_of, parse_location
from toolyard.assistant.traces.model import Drafts

_MARKS = (": error: ", ": fatal error: ", " - error ", ": error ", ": undefined reference to ")
_LINKER = re.compile(r"\S*ld(?:\.\w{2,4})?: ")


class CompilerReader:
    """Reads errors of compilers and linkers."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts

    def read_line(self, line: str) -> bool:
        if not line or line[0].isspace():
            return False
        text = line[linker.end() :] if (linker := _LINKER.match(line)) else line
        for mark in _MARKS:
            head, found, message = text.partition(mark)
            where = _parse_compiler_location(head) if found else None
            if where is not None:
                return self._add_error(
                    where, f"{mark.strip(' :-')}: {message}" if mark.endswith(": ") else mark[2:] + message
                )
        head, found, message = text.partition(": ")
        where = parse_location(head) if found else None
        return (
            where is not None and where.column > 0 and where.file.endswith(".go") and self._add_error(where, message)
        )

    def _add_error(self, location: SourceLocation, error: str) -> bool:
        language = language_of(location.file)
        if language is None:
            return False
        self._drafts.open(language, error).add(location.to_frame())
        return True


def _parse_compiler_location(text: str) -> SourceLocation | None:
    """Parses `file:4:10`, or `file(4,10)` as TypeScript's and Microsoft's compilers write it."""
    if not text.endswith(")"):
        return parse_location(text)
    file, _, inside = text[:-1].rpartition("(")
    line, _, column = inside.partition(",")
    if not file or not is_number(line):
        return None
    return SourceLocation(file, int(line), int(column) if is_number(column) else 0)
