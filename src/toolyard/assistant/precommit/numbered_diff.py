"""A diff with the numbers that its lines have in the new file, so that a model can name them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_WIDTH: Final = 5


def numbered(diff: str) -> Iterator[str]:
    """The lines of a file's diff. Hunks are numbered and name what encloses them; removed lines have no number.

    A diff of a merge has several old sides and is left as it is.
    """
    line = 0
    hunk = 0
    for text in diff.split("\n") if diff else ():
        if found := _HUNK.match(text):
            hunk += 1
            line = int(found[1])
            enclosing = f", in {found[2].strip()}" if found[2].strip() else ""
            yield f"@@ hunk {hunk}, from line {line}{enclosing}"
        elif not line:
            yield text
        elif text.startswith(("+", " ")):
            yield f"{line:>{_WIDTH}} {text}"
            line += 1
        else:
            yield f"{'':>{_WIDTH}} {text}"
