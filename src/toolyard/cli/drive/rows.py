"""The lines that tell of a run, coloured, whichever screen they go to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from rich.style import StyleType
from rich.text import Text

from toolyard.cli.drive.changes import Changes
from toolyard.cli.drive.format import CameOf, about, clean, one_line, span, spent
from toolyard.drivers import Fault, Finished, Status, ToolCall

DONE, WRONG, ODD = "✓", "✗", "!"
_NAME_WIDTH: Final = 5
_INDENT: Final = "  "
_LEAST_ABOUT: Final = 12
_SHOWN_WHY: Final = 4
_STATUS: Final[dict[Status, tuple[str, str, str]]] = {
    Status.SUCCEEDED: (DONE, "Succeeded", "green"),
    Status.FAILED: (WRONG, "Failed", "red"),
    Status.NOT_ATTACHED: (WRONG, "Not attached", "red"),
    Status.CANCELLED: (ODD, "Cancelled", "yellow"),
    Status.TIMED_OUT: (ODD, "Timed out", "yellow"),
}
_CHANGES: Final = {"A": "green", "D": "red", "M": "yellow", "R": "cyan", "m": "magenta"}


def heading(title: str, model: str, workspace: str, home: str) -> Text:
    place = workspace
    if workspace == home or workspace.startswith(f"{home}/"):
        place = os.path.join("~", os.path.relpath(workspace, home)) if workspace != home else "~"
    more = " · ".join(clean(word) for word in (model, place) if word)
    return Text.assemble((title, "bold"), _INDENT, (more, "dim"))


def under_way(call: ToolCall, workspace: str, seconds: float, frame: str, width: int) -> Text:
    """A call that has no result yet."""
    return _call(call, workspace, (frame, "cyan"), [(span(seconds) if seconds >= 1 else "", "dim")], width)


def over(call: ToolCall, workspace: str, came: CameOf, seconds: float, width: int) -> Iterator[Text]:
    mark = (DONE, "green") if came.ok else (WRONG, "red")
    yield _call(call, workspace, mark, [(came.note, "" if came.ok else "red"), (span(seconds), "dim")], width)
    lines = [line for line in came.why.split("\n") if line.strip()]
    for line in lines[:_SHOWN_WHY]:
        yield _below(line.strip(), "red")
    if len(lines) > _SHOWN_WHY:
        yield _below(f"… {len(lines) - _SHOWN_WHY} more lines", "dim")


def unanswered(call: ToolCall, workspace: str, width: int) -> Text:
    return _call(call, workspace, (ODD, "yellow"), [("no answer", "yellow")], width)


def trouble(fault: Fault) -> Iterator[Text]:
    yield Text.assemble(_INDENT, (f"{ODD} ", "yellow"), (one_line(fault.message), "yellow"))


def ending(finished: Finished) -> Iterator[Text]:
    mark, word, colour = _STATUS[finished.status]
    yield Text.assemble((f"{mark} {word}", f"bold {colour}"), (_INDENT + " · ".join(spent(finished)), "dim"))
    for line in clean(finished.reason).split("\n") if finished.reason else ():
        yield Text.assemble(_INDENT, (line, colour))
    if finished.hint:
        yield Text.assemble(_INDENT, ("→ ", "dim"), clean(finished.hint))


def changed(changes: Changes) -> Iterator[Text]:
    if not changes.lines:
        yield Text(f"{_INDENT}No file was changed.", "dim")
        return
    for line in changes.lines:
        mark, _, rest = clean(line).partition(" ")
        told = Text.assemble(_INDENT, (mark, _CHANGES.get(mark, "")), " ", rest)
        yield _in_one_piece(told)
    if changes.undo:
        yield _in_one_piece(Text(f"{_INDENT}{clean(changes.undo)}", "dim"))


def _in_one_piece(line: Text) -> Text:
    """However long it is: somebody copies it."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _call(
    call: ToolCall, workspace: str, mark: tuple[str, str], notes: list[tuple[str, StyleType]], width: int
) -> Text:
    """One line: what the call is about gives way where there is no room."""
    name = clean(call.name) if call.ours else f"{clean(call.name)} (its own)"
    line = Text.assemble(_INDENT, mark, " ", (f"{name:<{_NAME_WIDTH}}", "bold"))
    tail = Text()
    for note, style in notes:
        if note:
            tail.append(_INDENT).append(note, style)
    what = Text(about(call, workspace))
    room = width - line.cell_len - len(_INDENT)
    tail.truncate(max(room - min(_LEAST_ABOUT, what.cell_len), 0), overflow="ellipsis")
    what.truncate(max(room - tail.cell_len, 1), overflow="ellipsis")
    return line.append(_INDENT).append_text(what).append_text(tail)


def _below(line: str, style: str) -> Text:
    """Something about the call above it. What does not fit goes on below, as far in."""
    return Text.assemble("      ", (line, style))
