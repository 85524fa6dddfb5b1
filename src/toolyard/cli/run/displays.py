"""Who listens to a run: the display that was asked for, or the nearest to it that the terminal can show."""

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
    """Owns what it has drawn until `close()`, which leaves the terminal as it was. Raises nothing into a run."""

    def handle_event(self, event: TeamEvent) -> None:
        """Told of everything, in order. After the last event, what the run came to has been printed."""
        ...

    def show_stopping(self) -> None:
        """The user wants it to stop: say so until it has."""
        ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Draw nothing for as long as somebody is asked something on the terminal."""
        ...

    def close(self) -> None: ...


def display_for(
    kind: DisplayKind,
    *,
    no_color: bool = False,
    on_gone: Callable[[], None] = lambda: None,
    resume: Callable[[RunFinished], str] = resume_command,
    has_report: bool = True,
) -> Display:
    """`on_gone` is called once nobody is left who reads the output, perhaps by another thread.

    `resume` says which command goes on with a run that has ended; nothing where none can.
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
    """Asked of the file itself: a variable may tell Rich that a pipe is a terminal."""
    return console.file.isatty() and not console.is_dumb_terminal and console.encoding.startswith("utf")
