"""The output streams of a display: stdout, stderr or both, each until its reader has gone.

Output to a closed stream is dropped. Nothing here raises: a run does not end because its viewer has left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.text import Text

from toolyard.cli.common.broken_pipe import silence_broken_pipe
from toolyard.cli.drive.displays import ASCII
from toolyard.cli.run.format import escape_controls


class OutputStream:
    """One output stream."""

    def __init__(self, stream: TextIO, on_gone: Callable[[], None] = lambda: None, *, no_color: bool = False) -> None:
        self._stream, self._on_gone = stream, on_gone
        self._is_ascii = not (stream.encoding or "").lower().startswith("utf")
        self.is_gone = False
        self.is_terminal = stream.isatty()
        self._console = Console(
            file=stream, no_color=no_color or None, highlight=False, markup=False, emoji=False, soft_wrap=True
        )

    def print_line(self, line: Text) -> None:
        """Prints a line, coloured in a terminal."""
        if self.is_terminal and not self._is_ascii:
            self._write_unless_closed(lambda: self._console.print(line, soft_wrap=True))
        else:
            self.write(f"{line.plain.rstrip()}\n")

    def write(self, text: str) -> None:
        """Writes text unchanged and flushes."""
        if self._is_ascii:
            text = text.translate(ASCII).encode("ascii", "backslashreplace").decode()
        self._write_unless_closed(lambda: self._write_and_flush(text))

    def _write_and_flush(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _write_unless_closed(self, write: Callable[[], None]) -> None:
        if self.is_gone:
            return
        try:
            write()
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.is_gone = True
            if not isinstance(error, BrokenPipeError) or not silence_broken_pipe(self._stream):
                _report_write_error(self._stream, error)
            self._on_gone()


class OutputStreams:
    """The answer goes to stdout; progress goes to stdout in a terminal, else to stderr."""

    def __init__(self, on_gone: Callable[[], None] = lambda: None, *, no_color: bool = False) -> None:
        self.answers = OutputStream(sys.stdout, on_gone, no_color=no_color)
        self.is_split = not self.answers.is_terminal
        self.errors = OutputStream(sys.stderr, no_color=no_color)
        self.progress = self.errors if self.is_split else self.answers

    def write_answer(self, text: str) -> None:
        """Writes the answer alone, for a pipe or a file."""
        self.answers.write(f"{escape_controls(text).rstrip()}\n")


def _report_write_error(stream: TextIO, error: Exception) -> None:
    """Reports a stream that cannot be written, as on a full disk, on stderr."""
    if stream is sys.stderr:
        return
    try:
        print(f"toolyard run: the output cannot be written: {error}", file=sys.stderr)
    except (OSError, ValueError):
        return
