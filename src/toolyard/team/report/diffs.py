"""Renders a unified diff as HTML, with a foldable section for each file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from toolyard.team.report.format import pluralize
from toolyard.team.report.tags import Html, join_html, tag

_HUNK: Final = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FILE_START: Final = re.compile(r"--- (a/|/dev/null$)")
_MAX_LINES: Final = 4_000
"""Maximum lines over all files of an agent."""
_MAX_OPEN: Final = 3
"""Number of files that are unfolded initially."""
_MAX_LINE: Final = 2_000


@dataclass(slots=True)
class _File:
    name: str = ""
    added: int = 0
    removed: int = 0
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each line with its CSS class."""


def render_diff(diff: str) -> Html:
    """Returns the HTML of a diff."""
    remaining, hidden = _MAX_LINES, 0
    parts: list[Html] = []
    for number, file in enumerate(_split_files(diff)):
        if remaining <= 0:
            hidden += 1
            continue
        parts.append(_render_file(file, remaining, is_open=number < _MAX_OPEN))
        remaining -= len(file.lines)
    if hidden:
        parts.append(tag("p", f"… and {pluralize(hidden, 'more file')}", class_="dim"))
    return join_html(parts)


def _render_file(file: _File, max_lines: int, *, is_open: bool) -> Html:
    lines = tag("code", *(tag("span", text, class_=kind) for kind, text in file.lines[:max_lines]))
    hidden = len(file.lines) - max_lines
    more = tag("p", f"… and {pluralize(hidden, 'more line')}", class_="dim") if hidden > 0 else Html()
    added, removed = tag("span", f"+{file.added}", class_="plus"), tag("span", f"-{file.removed}", class_="minus")
    head = tag("summary", tag("code", file.name or "changes"), " ", added, " ", removed)
    opened = {"open": "open"} if is_open else {}
    return tag("details", head, tag("pre", lines, class_="diff"), more, class_="file", **opened)


def _split_files(diff: str) -> Iterator[_File]:
    file, old, new = _File(), 0, 0
    lines = diff.split("\n")
    for number, raw in enumerate(lines):
        line = raw[:_MAX_LINE]
        # The previous hunk may be truncated.
        begins_file = _FILE_START.match(line) is not None and "".join(lines[number + 1 : number + 2]).startswith(
            "+++ "
        )
        if (old > 0 or new > 0) and not begins_file:
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
        if line.startswith("diff ") or (begins_file and any(kind == "hunk" for kind, _ in file.lines)):
            if file.lines:
                yield file
            file, old, new = _File(), 0, 0
        file.name = _file_name(line) or file.name
        if line:
            file.lines.append(("head", line))
    if file.lines:
        yield file


def _file_name(line: str) -> str:
    """Returns the file name in a header line of a diff."""
    for mark in ("+++ ", "--- "):
        if line.startswith(mark):
            name = line[len(mark) :].partition("\t")[0]
            return "" if name == "/dev/null" else re.sub(r"^[ab]/", "", name)
    return ""
