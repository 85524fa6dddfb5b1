"""Selects the display of a run: the requested one, or the nearest that the terminal supports."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from rich.console import Console

from toolyard.cli.run.live_display import LiveDisplay
from toolyard.cli.run.streams import OutputStreams
from toolyard.cli.run.summary import resume_command
from toolyard.cli.run.text_display import JsonDisplay, SilentDisplay, SimpleDisplay
from toolyard.team.events import RunFinished, TeamEvent

DisplayKind: TypeAlias = Literal["rich_terminal", "textual_terminal", "simple", "silent", "json"]


class Display(Protocol):
    """Shows a run. Owns what it has drawn until `close()`, which restores the terminal. Never raises into a run."""

    def handle_event(self, event: TeamEvent) -> None:
        """Gets every event, in order. After the last event the result of the run has been printed."""
        ...

    def show_stopping(self) -> None:
        """Shows that the user has asked the run to stop."""
        ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Draws nothing while the user is asked something on the terminal."""
        ...

    def close(self) -> None:
        """Restores the terminal."""
        ...


def display_for(
    kind: DisplayKind,
    *,
    no_color: bool = False,
    on_gone: Callable[[], None] = lambda: None,
    resume: Callable[[RunFinished], str] = resume_command,
    has_report: bool = True,
) -> Display:
    """Returns the display of a kind.

    `on_gone` is called when the output is closed, perhaps from another thread. `resume` returns the command that
    continues a run that has ended; empty if it cannot be continued.
    """
    outlets = OutputStreams(on_gone, no_color=no_color)
    match kind:
        case "json":
            return JsonDisplay(outlets.answers)
        case "silent":
            return SilentDisplay(outlets, resume)
        case "rich_terminal" | "textual_terminal":
            console = Console(
                file=sys.stderr if outlets.is_split else sys.stdout,
                no_color=no_color or None,
                highlight=False,
                markup=False,
                emoji=False,
            )
            if _is_drawable(console):
                return LiveDisplay(console, outlets, on_gone=on_gone, resume=resume, has_report=has_report)
        case "simple":
            pass
    return SimpleDisplay(outlets, resume=resume, has_report=has_report)


def _is_drawable(console: Console) -> bool:
    """Whether the file itself is a terminal: a variable may tell Rich that a pipe is one."""
    return console.file.isatty() and not console.is_dumb_terminal and console.encoding.startswith("utf")
