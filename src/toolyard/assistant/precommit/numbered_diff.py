"""A diff with the numbers that its lines have in the new file, so that a model can name them. Pure."""

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
    r"|[A-Za-z_$][^;(]*\([^;]*$"  # a function of C and its relatives, at the beginning of a line
)


def number_diff_lines(diff: str) -> Iterator[str]:
    """The lines of a file's diff. Hunks are numbered and name what encloses them; removed lines have no number.

    A diff of a merge has several old sides and is left as it is.
    """
    line = 0
    hunk = 0
    lines = diff.split("\n") if diff else []
    for place, text in enumerate(lines):
        if found := _HUNK.match(text):
            hunk += 1
            line = int(found[1])
            enclosing = " ".join(_enclosing_definitions(lines, place + 1, found[2].strip()))
            yield f"@@ hunk {hunk}, from line {line}" + (f", in {enclosing}" if enclosing else "")
        elif not line:
            yield text
        elif text.startswith(("+", " ")):
            yield f"{line:>{_WIDTH}} {text}"
            line += 1
        else:
            yield f"{'':>{_WIDTH}} {text}"


def _enclosing_definitions(lines: Sequence[str], first: int, heading: str) -> Iterator[str]:
    """The type and the function that the first change is in, of a hunk whose lines begin at `first`.

    A hunk shows its whole function, so git's `heading` is what stands before that: a type that holds it, or another
    function.
    """
    at = next((place for place in range(first, len(lines)) if lines[place][:1] != " "), len(lines) - 1)
    changed = lines[at][1:]
    inner = _indent(changed)
    before = (lines[place][1:] for place in range(at - 1, first - 1, -1))
    function = next((each for each in before if _indent(each) < inner and _FUNCTION.match(each)), "")
    if _TYPE.match(heading) and _indent(function or changed):
        yield heading
    if function:
        yield function.strip()


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
