"""Writes the reports of a run next to its log. Each file is replaced atomically."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from toolyard.files.temp_names import temporary_name
from toolyard.team.log import LOG_NAME, read_log
from toolyard.team.report.html import render_html
from toolyard.team.report.markdown import render_markdown
from toolyard.team.report.timeline_model import build_timeline

HTML_NAME: Final = "report.html"
MARKDOWN_NAME: Final = "report.md"


class ReportPaths(NamedTuple):
    """Paths of the written reports."""

    markdown: str
    html: str


def no_diff(agent: str) -> str:
    """Returns no diff."""
    del agent
    return ""


def write_report(folder: str, diff_of: Callable[[str], str] = no_diff) -> ReportPaths:
    """Writes both reports from the log in `folder`, with `diff_of` each agent. Raises OSError."""
    timeline = build_timeline(read_log(os.path.join(folder, LOG_NAME)))
    # Only agents that the run started with have a backend, and files.
    diffs = {name: diff_of(name) for name, info in timeline.agents.items() if info.backend}
    written = ReportPaths(os.path.join(folder, MARKDOWN_NAME), os.path.join(folder, HTML_NAME))
    _replace(written.markdown, render_markdown(timeline, diffs))
    _replace(written.html, render_html(timeline, diffs))
    return written


def _replace(path: str, text: str) -> None:
    temporary = os.path.join(os.path.dirname(path), temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
