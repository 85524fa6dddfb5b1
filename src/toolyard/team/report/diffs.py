"""A unified diff, coloured: a foldable part for each file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from toolyard.team.report.tags import Html, tag, together
from toolyard.team.report.words import counted

_HUNK: Final = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_MOST_LINES: Final = 4_000
"""Of all files of an agent together."""
_MOST_OPEN: Final = 3
"""Files that are shown without being asked for."""
_LONGEST_LINE: Final = 2_000


@dataclass(slots=True)
class _File:
    name: str = ""
    added: int = 0
    removed: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each with its kind."""


def shown_diff(diff: str) -> Html:
    left = _MOST_LINES
    parts: list[Html] = []
    for number, file in enumerate(_files(diff)):
        lines = file.lines[:left]
        left -= len(lines)
        body = tag("pre", *(tag("span", f"{text}\n", class_=kind) for kind, text in lines), class_="diff")
        hidden = len(file.lines) - len(lines)
        more = tag("p", f"… {counted(hidden, 'more line')} not shown", class_="dim") if hidden else Html()
        counts = together(
            [tag("span", f"+{file.added}", class_="plus"), " ", tag("span", f"-{file.removed}", class_="minus")]
        )
        head = tag("summary", tag("code", file.name or "changes"), " ", counts)
        is_open = {"open": "open"} if number < _MOST_OPEN else {}
        parts.append(tag("details", head, body, more, class_="file", **is_open))
    return together(parts)


def _files(diff: str) -> Iterator[_File]:
    file, old, new = _File(), 0, 0
    for raw in diff.split("\n"):
        line = raw[:_LONGEST_LINE]
        if old > 0 or new > 0:
            kind = {"+": "add", "-": "del", "\\": "note"}.get(line[:1], "")
            old -= kind in ("del", "")
            new -= kind in ("add", "")
            file.added += kind == "add"
            file.removed += kind == "del"
            file.lines.append((kind, line))
            continue
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
            file.lines.append(("hunk", line))
            continue
        if line.startswith("diff ") or (line.startswith("--- ") and any(kind == "hunk" for kind, _ in file.lines)):
            if file.lines:
                yield file
            file = _File()
        file.name = _name(line) or file.name
        if line:
            file.lines.append(("head", line))
    if file.lines:
        yield file


def _name(line: str) -> str:
    """The file that a line of a diff's head names."""
    for mark in ("+++ ", "--- "):
        if line.startswith(mark):
            name = line[len(mark) :].partition("\t")[0]
            return "" if name == "/dev/null" else re.sub(r"^[ab]/", "", name)
    return ""
