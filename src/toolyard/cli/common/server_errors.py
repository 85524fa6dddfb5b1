"""Formats the failure of a server for a terminal: its name once, and the end of its output."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAX_NAMES = 10
_MAX_LINES = 6
_LINE_CHARS = 300
_CRASH_HINT = re.compile(r"\s*The next call starts it again\. `toolyard doctor[^`]*` shows what it printed\.")
"""The hint for callers of a server that ended; a listing shows the output itself."""
_FIX_HINT = " Provide what it needs, such as a key in the entry's `env`."


def format_failures(names: Sequence[str]) -> str:
    """Returns `3 failed: a, b, c`."""
    more = len(names) - _MAX_NAMES
    listed = ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{len(names)} failed: {listed}"


def without_server_name(server: str, error: str) -> str:
    """Returns the error without the server's name, for a line that already starts with it."""
    text = error.removeprefix(f"Server '{server}' ")
    return _CRASH_HINT.sub(_FIX_HINT, text)


def last_stderr_lines(stderr: str, error: str = "") -> tuple[str, ...]:
    """Returns the end of a server's stderr; empty if the error already quotes it."""
    lines = [line.rstrip()[:_LINE_CHARS] for line in stderr.splitlines() if line.strip()]
    if len(lines) == 1 and lines[0].strip() in error:
        return ()
    cut = len(lines) - _MAX_LINES
    return (f"… {cut} lines before", *lines[-_MAX_LINES:]) if cut > 0 else tuple(lines)
