"""The coloured lines that describe a run, for every display."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from rich.style import StyleType
from rich.text import Text

from toolyard.cli.drive.changes import RunChanges
from toolyard.cli.drive.format import (
    CallSummary,
    call_subject,
    format_duration,
    format_usage,
    one_line,
    terminal_safe,
)
from toolyard.drivers import Fault, Finished, Status, ToolCall

DONE, WRONG, ODD = "✓", "✗", "!"
_NAME_WIDTH: Final = 5
_INDENT: Final = "  "
_MIN_SUBJECT_WIDTH: Final = 12
_MAX_REASON_LINES: Final = 4
_STATUS: Final[dict[Status, tuple[str, str, str]]] = {
    Status.SUCCEEDED: (DONE, "Succeeded", "green"),
    Status.FAILED: (WRONG, "Failed", "red"),
    Status.NOT_ATTACHED: (WRONG, "Not attached", "red"),
    Status.CANCELLED: (ODD, "Cancelled", "yellow"),
    Status.TIMED_OUT: (ODD, "Timed out", "yellow"),
}
_CHANGE_STYLES: Final = {"A": "green", "D": "red", "M": "yellow", "R": "cyan", "m": "magenta"}


def heading_line(title: str, model: str, workspace: str, home: str) -> Text:
    """Returns the first line: CLI, model and workspace."""
    folder = workspace
    if workspace == home or workspace.startswith(f"{home}/"):
        folder = os.path.join("~", os.path.relpath(workspace, home)) if workspace != home else "~"
    more = " · ".join(terminal_safe(word) for word in (model, folder) if word)
    return Text.assemble((title, "bold"), _INDENT, (more, "dim"))


def running_call_line(call: ToolCall, workspace: str, seconds: float, frame: str, width: int) -> Text:
    """Returns the line of a call without a result."""
    return _call_line(
        call, workspace, (frame, "cyan"), [(format_duration(seconds) if seconds >= 1 else "", "dim")], width
    )


def finished_call_lines(
    call: ToolCall, workspace: str, summary: CallSummary, seconds: float, width: int
) -> Iterator[Text]:
    """Yields the line of a finished call, and the reason of a failure."""
    mark = (DONE, "green") if summary.ok else (WRONG, "red")
    yield _call_line(
        call, workspace, mark, [(summary.note, "" if summary.ok else "red"), (format_duration(seconds), "dim")], width
    )
    lines = [line for line in summary.reason.split("\n") if line.strip()]
    for line in lines[:_MAX_REASON_LINES]:
        yield _indented_line(line.strip(), "red")
    if len(lines) > _MAX_REASON_LINES:
        yield _indented_line(f"… {len(lines) - _MAX_REASON_LINES} more lines", "dim")


def unanswered_call_line(call: ToolCall, workspace: str, width: int) -> Text:
    """Returns the line of a call that never got a result."""
    return _call_line(call, workspace, (ODD, "yellow"), [("no answer", "yellow")], width)


def fault_lines(fault: Fault) -> Iterator[Text]:
    """Yields the line of an error."""
    yield Text.assemble(_INDENT, (f"{ODD} ", "yellow"), (one_line(fault.message), "yellow"))


def ending_lines(finished: Finished) -> Iterator[Text]:
    """Yields status, usage, reason and hint of a finished run."""
    mark, word, colour = _STATUS[finished.status]
    yield Text.assemble((f"{mark} {word}", f"bold {colour}"), (_INDENT + " · ".join(format_usage(finished)), "dim"))
    for line in terminal_safe(finished.reason).split("\n") if finished.reason else ():
        yield Text.assemble(_INDENT, (line, colour))
    if finished.hint:
        yield Text.assemble(_INDENT, ("→ ", "dim"), terminal_safe(finished.hint))


def change_lines(changes: RunChanges) -> Iterator[Text]:
    """Yields the changed files, and how to undo the changes."""
    if not changes.lines:
        yield Text(f"{_INDENT}No file was changed.", "dim")
        return
    for line in changes.lines:
        mark, _, rest = terminal_safe(line).partition(" ")
        styled = Text.assemble(_INDENT, (mark, _CHANGE_STYLES.get(mark, "")), " ", rest)
        yield _without_wrapping(styled)
    if changes.undo:
        yield _without_wrapping(Text(f"{_INDENT}{terminal_safe(changes.undo)}", "dim"))


def _without_wrapping(line: Text) -> Text:
    """Returns the line unwrapped, so that it can be copied."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _call_line(
    call: ToolCall, workspace: str, mark: tuple[str, str], notes: list[tuple[str, StyleType]], width: int
) -> Text:
    """Returns one line; the subject of the call is truncated if there is no room."""
    name = terminal_safe(call.name) if call.ours else f"{terminal_safe(call.name)} (its own)"
    line = Text.assemble(_INDENT, mark, " ", (f"{name:<{_NAME_WIDTH}}", "bold"))
    tail = Text()
    for note, style in notes:
        if note:
            tail.append(_INDENT).append(note, style)
    what = Text(call_subject(call, workspace))
    room = width - line.cell_len - len(_INDENT)
    tail.truncate(max(room - min(_MIN_SUBJECT_WIDTH, what.cell_len), 0), overflow="ellipsis")
    what.truncate(max(room - tail.cell_len, 1), overflow="ellipsis")
    return line.append(_INDENT).append_text(what).append_text(tail)


def _indented_line(line: str, style: str) -> Text:
    """Returns a line below a call; it wraps with the same indent."""
    return Text.assemble("      ", (line, style))
