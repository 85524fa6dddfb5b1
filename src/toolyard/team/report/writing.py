"""Writes the reports of a run beside its log. Each file is there as a whole, or as it was."""

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
    markdown: str
    html: str


def no_diff(agent: str) -> str:
    """For who has none."""
    del agent
    return ""


def write_report(folder: str, diff_of: Callable[[str], str] = no_diff) -> ReportPaths:
    """From the log in `folder`, and what `diff_of` says of each agent's files. Raises OSError."""
    story = build_timeline(read_log(os.path.join(folder, LOG_NAME)))
    # Only of agents that the run was begun with: nobody else has files.
    diffs = {name: diff_of(name) for name, info in story.agents.items() if info.backend}
    written = ReportPaths(os.path.join(folder, MARKDOWN_NAME), os.path.join(folder, HTML_NAME))
    _replace(written.markdown, render_markdown(story, diffs))
    _replace(written.html, render_html(story, diffs))
    return written


def _replace(path: str, text: str) -> None:
    beside = os.path.join(os.path.dirname(path), temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
