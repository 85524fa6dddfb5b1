"""A run on a screen: live in a terminal, in plain lines elsewhere, or as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from toolyard.cli.drive.changes import Changes
from toolyard.cli.drive.format import clean
from toolyard.cli.drive.live_display import LiveShowing
from toolyard.cli.drive.presenter import About, Part, Showing, Telling
from toolyard.drivers import Message, as_json

_WIDTH: Final = 200
"""Of a plain line about a call."""
ASCII: Final = str.maketrans({"✓": "ok", "✗": "x", "·": "|", "→": "->", "…": "..."})


def showing_for(about: About, *, wants_json: bool) -> Showing:
    if wants_json:
        return JsonShowing()
    console = Console(no_color=about.settings.no_color or None, highlight=False, markup=False, emoji=False)
    is_live = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return LiveShowing(about, console) if is_live else PlainShowing(about)


class JsonShowing:
    """One message a line, and nothing else."""

    def show(self, message: Message) -> None:
        # JSON leaves DEL as it is; a terminal would act on it.
        click.echo(json.dumps(as_json(message)).replace("\x7f", "\\u007f"))

    def tick(self) -> None: ...

    def changed(self, changes: Changes | None) -> None: ...

    def cancelling(self) -> None: ...

    def paused(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


class PlainShowing(Telling):
    """For pipes and logs: nothing moves, nothing is coloured."""

    def __init__(self, about: About) -> None:
        super().__init__(about)
        self._newlines = 0
        """At the end of the text so far. They are printed once something follows."""
        self._is_in_text = False
        self._is_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")

    @property
    def width(self) -> int:
        return _WIDTH

    def put(self, told: Iterable[Text]) -> None:
        for line in told:
            self._out(f"{line.plain.rstrip()}\n")

    def text(self, words: str) -> None:
        body = words.strip("\n")
        if not body:
            self._newlines += len(words)
            return
        if not self._is_in_text:
            self.enter(Part.TEXT)
            self._is_in_text = True
        else:
            self._newlines += len(words) - len(words.lstrip("\n"))
        self._out("\n" * self._newlines + clean(body))
        self._newlines = len(words) - len(words.rstrip("\n"))

    def end_text(self) -> None:
        if self._is_in_text:
            self._out("\n")
        self._is_in_text, self._newlines = False, 0

    def tick(self) -> None: ...

    def cancelling(self) -> None: ...

    def paused(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...

    def _out(self, words: str) -> None:
        if self._is_ascii:
            words = words.translate(ASCII).encode("ascii", "backslashreplace").decode()
        click.echo(words, nl=False)
