"""What a server's failure looks like on a terminal: its name once, and the last of what it printed."""

from __future__ import annotations

import re

_LINES = 6
_LINE_CHARS = 300
_ELSEWHERE = re.compile(r"\s*`toolyard doctor[^`]*` shows what it printed\.")
"""What an error says of its server's output, where that stands right below."""


def without_name(server: str, error: str) -> str:
    """The error without the server's name, for where that stands before it already."""
    text = error.removeprefix(f"Server '{server}' ")
    return _ELSEWHERE.sub("", text)


def last_lines(stderr: str, error: str = "") -> tuple[str, ...]:
    """The end of a server's stderr, unless the error quotes all of it."""
    lines = [line.rstrip()[:_LINE_CHARS] for line in stderr.splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].strip() in error:
        return ()
    cut = len(lines) - _LINES
    return (f"… {cut} lines before", *lines[-_LINES:]) if cut > 0 else tuple(lines)
