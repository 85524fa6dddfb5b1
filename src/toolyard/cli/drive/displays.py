"""Displays of `toolyard drive`: live in a terminal, plain lines elsewhere, or JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from toolyard.cli.drive.changes import RunChanges
from toolyard.cli.drive.format import terminal_safe
from toolyard.cli.drive.live_display import LiveDriveDisplay
from toolyard.cli.drive.presenter import DriveDisplay, DriveInfo, MessagePresenter, OutputPart
from toolyard.drivers import Message, as_json

_WIDTH: Final = 200
"""Width of a plain line about a call."""
ASCII: Final = str.maketrans({"✓": "ok", "✗": "x", "·": "|", "→": "->", "…": "..."})


def display_for(about: DriveInfo, *, wants_json: bool) -> DriveDisplay:
    """Returns the display that fits the output."""
    if wants_json:
        return JsonDriveDisplay()
    console = Console(no_color=about.settings.no_color or None, highlight=False, markup=False, emoji=False)
    is_live = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return LiveDriveDisplay(about, console) if is_live else PlainDriveDisplay(about)


class JsonDriveDisplay:
    """Prints one JSON message per line."""

    def show(self, message: Message) -> None:
        # json.dumps does not escape DEL, which terminals interpret.
        click.echo(json.dumps(as_json(message)).replace("\x7f", "\\u007f"))

    def tick(self) -> None: ...

    def show_changes(self, changes: RunChanges | None) -> None: ...

    def show_cancelling(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


class PlainDriveDisplay(MessagePresenter):
    """Prints plain lines, for pipes and logs."""

    def __init__(self, about: DriveInfo) -> None:
        super().__init__(about)
        self._newlines = 0
        """Pending newlines at the end of the text; printed once more text follows."""
        self._is_in_text = False
        self._is_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")

    @property
    def width(self) -> int:
        return _WIDTH

    def print_lines(self, styled_lines: Iterable[Text]) -> None:
        for line in styled_lines:
            self._write(f"{line.plain.rstrip()}\n")

    def print_text(self, words: str) -> None:
        body = words.strip("\n")
        if not body:
            self._newlines += len(words)
            return
        if not self._is_in_text:
            self.begin_part(OutputPart.TEXT)
            self._is_in_text = True
        else:
            self._newlines += len(words) - len(words.lstrip("\n"))
        self._write("\n" * self._newlines + terminal_safe(body))
        self._newlines = len(words) - len(words.rstrip("\n"))

    def end_text(self) -> None:
        if self._is_in_text:
            self._write("\n")
        self._is_in_text, self._newlines = False, 0

    def tick(self) -> None: ...

    def show_cancelling(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...

    def _write(self, words: str) -> None:
        if self._is_ascii:
            words = words.translate(ASCII).encode("ascii", "backslashreplace").decode()
        click.echo(words, nl=False)
