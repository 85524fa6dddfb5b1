"""Adds the line numbers of the new file to a diff, so that a model can refer to them. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_WIDTH: Final = 5
_MODIFIERS: Final = (
    r"(?:(?:async|export|default|pub(?:\([^)]*\))?|unsafe|const|public|private|protected|internal|static|final"
    r"|abstract|override)[ \t]+)*"
)
_TYPE: Final = re.compile(_MODIFIERS + r"(?:class|interface|namespace|enum|impl|trait|struct|mod)[ \t<]")
_FUNCTION: Final = re.compile(
    r"\s*" + _MODIFIERS + r"(?:def|class|function|interface|enum|namespace|fn|impl|trait|struct|mod|func)[ \t*<(]"
    r"|\s*(?:public|private|protected|internal|static|final|abstract|override)[ \t].*[({]\s*$"
    r"|[A-Za-z_$][^;(]*\([^;]*$"  # a function of C and similar languages, at the start of a line
)


def number_diff_lines(diff: str) -> Iterator[str]:
    """Yields the lines of a file's diff.

    Hunks are numbered and name their enclosing function; removed lines have no number.

    The diff of a merge has several old sides and stays unchanged.
    """
    line = 0
    hunk = 0
    lines = diff.split("\n") if diff else []
    for at, text in enumerate(lines):
        if found := _HUNK.match(text):
            hunk += 1
            line = int(found[1])
            enclosing = " ".join(_enclosing_definitions(lines, at + 1, found[2].strip()))
            yield f"@@ hunk {hunk}, from line {line}" + (f", in {enclosing}" if enclosing else "")
        elif not line:
            yield text
        elif text.startswith(("+", " ")):
            yield f"{line:>{_WIDTH}} {text}"
            line += 1
        else:
            yield f"{'':>{_WIDTH}} {text}"


def _enclosing_definitions(lines: Sequence[str], first: int, heading: str) -> Iterator[str]:
    """Yields the type and the function that contain the first change of the hunk whose lines start at `first`.

    A hunk shows its whole function, so git's `heading` is what precedes it: a type that contains it, or another
    function.
    """
    at = next((index for index in range(first, len(lines)) if lines[index][:1] != " "), len(lines) - 1)
    changed = lines[at][1:]
    inner = _indent(changed)
    before = (lines[index][1:] for index in range(at - 1, first - 1, -1))
    function = next((each for each in before if _indent(each) < inner and _FUNCTION.match(each)), "")
    if _TYPE.match(heading) and _indent(function or changed):
        yield heading
    if function:
        yield function.strip()


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
