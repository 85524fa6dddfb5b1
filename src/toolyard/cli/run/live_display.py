"""Shows a run in a terminal: a panel per agent on the alternate screen, and a summary at the end.

`LiveDisplay` owns the alternate screen, the cursor and a drawing thread; `pause()` restores the terminal temporarily
and `close()` permanently. `handle_event` only updates the state, so that a slow terminal does not slow down agents.
Unchanged lines are not sent again, except in a periodic full redraw that repairs output of other programs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Final

from rich.console import Console, RenderableType
from rich.control import Control
from rich.padding import Padding
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from toolyard.cli.common.terminal_text import TerminalMarkdown, TerminalSafe, Trimmed
from toolyard.cli.drive.format import terminal_safe
from toolyard.cli.run import summary
from toolyard.cli.run.layout import render_screen
from toolyard.cli.run.panels import DrawContext
from toolyard.cli.run.state import TeamProgress
from toolyard.cli.run.streams import OutputStreams
from toolyard.team.events import RunFinished, TeamEvent

FRAME_SECONDS: Final = 0.1
_REST_FACTOR: Final = 5
"""The pause after a drawing, as a multiple of the time it took."""
_REDRAW_SECONDS: Final = 5.0
_WIDEST: Final = 100
"""Columns of the answer: longer lines are hard to read."""
_LONGEST_ANSWER: Final = 100_000
"""Maximum characters of the answer that are printed; the rest is in the report."""
_MIN_SIZE: Final = 4


def _escape_segment(codes: str) -> Segment:
    return Segment(codes, None, [(ControlType.HOME,)])


# A terminal may draw a character wider than expected: without wrapping only that line is affected.
_NO_WRAP, _WRAP = _escape_segment("\x1b[?7l"), _escape_segment("\x1b[?7h")
# Synchronized output: terminals that support it show complete frames only; others ignore it.
_BEGIN, _END = _escape_segment("\x1b[?2026h"), _escape_segment("\x1b[?2026l")
_ERASE_LINE: Final = _escape_segment("\x1b[2K")


class LiveDisplay:
    """A full-screen display of a run."""

    def __init__(
        self,
        console: Console,
        outlets: OutputStreams,
        *,
        on_gone: Callable[[], None] = lambda: None,
        resume: Callable[[RunFinished], str] = summary.resume_command,
        has_report: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.team = TeamProgress()
        self._console, self._outlets, self._clock = console, outlets, clock
        self._on_gone, self._resume, self._has_report = on_gone, resume, has_report
        self._state_lock, self._terminal_lock = threading.Lock(), threading.RLock()
        self._drawn_lines: list[list[Segment]] = []
        self._size, self._redrawn_at = (0, 0), 0.0
        self._pauses, self._is_on, self._is_over = 0, False, False
        self._fault = ""
        self._stop = threading.Event()
        self._drawer: threading.Thread | None = None

    def handle_event(self, event: TeamEvent) -> None:
        with self._state_lock:
            self.team.handle_event(event)
        if isinstance(event, RunFinished):
            self.close()
            self._print_summary(event)
        elif self._drawer is None and not self._is_over:
            self._drawer = threading.Thread(target=self._keep_drawing, name="display", daemon=True)
            self._enter_screen()
            self._drawer.start()

    def show_stopping(self) -> None:
        """Shows that the run is stopping."""
        with self._state_lock:
            self.team.is_stopping = True

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        with self._terminal_lock:
            self._pauses += 1
            self._leave_screen()
        try:
            yield
        finally:
            with self._terminal_lock:
                self._pauses -= 1
                if self._drawer is not None and not self._is_over and not self._pauses:
                    self._enter_screen()

    def close(self) -> None:
        """Restores the terminal. May be called at any time, and more than once."""
        self._is_over = True
        self._stop.set()
        if self._drawer is not None and self._drawer is not threading.current_thread():
            self._drawer.join()
        with self._terminal_lock:
            self._leave_screen()

    def draw(self) -> None:
        """Updates the screen."""
        with self._terminal_lock:
            if not self._is_on:
                return
            size = self._console.size
            now = self._clock()
            is_whole = (size.width, size.height) != self._size or not 0 <= now - self._redrawn_at < _REDRAW_SECONDS
            self._size = (size.width, size.height)
            self._redrawn_at = now if is_whole else self._redrawn_at
            lines = self._lines(size.width, size.height, now)
            parts = [_BEGIN, *([_escape_segment("\x1b[2J")] if is_whole else [])]
            for number, line in enumerate(lines):
                if is_whole or number >= len(self._drawn_lines) or line != self._drawn_lines[number]:
                    parts += [Control.move_to(0, number).segment, _ERASE_LINE, *line]
            self._drawn_lines = lines
            if len(parts) > 1:
                self._console.print(Segments([*parts, _END]), end="", crop=False, soft_wrap=True)

    def _lines(self, width: int, height: int, now: float) -> list[list[Segment]]:
        with self._state_lock:
            lines = render_screen(
                self.team, max(width, _MIN_SIZE), max(height, _MIN_SIZE), DrawContext(self._console, now)
            )
        options = self._console.options.update(width=width, no_wrap=True, overflow="crop")
        return [
            [part for part in self._console.render(TerminalSafe(line), options) if part.text != "\n"]
            for line in lines[:height]
        ]

    def _keep_drawing(self) -> None:
        pause = FRAME_SECONDS
        while not self._stop.wait(pause):
            began = time.monotonic()
            try:
                self.draw()
            except (OSError, ValueError):  # the terminal is gone
                self._on_gone()
                return
            except Exception as error:  # noqa: BLE001 - an error in the display must not end the run
                self._fault = f"{type(error).__name__}: {error}"
                with self._terminal_lock:
                    self._leave_screen()
                return
            # Slow drawing happens less often, to leave the time to the agents.
            pause = max(FRAME_SECONDS, (time.monotonic() - began) * _REST_FACTOR)

    def _enter_screen(self) -> None:
        with self._terminal_lock, contextlib.suppress(OSError, ValueError):
            if not self._is_on and not self._pauses:
                self._is_on, self._drawn_lines, self._size = True, [], (0, 0)
                self._console.set_alt_screen(True)
                self._console.show_cursor(show=False)
                self._console.print(Segments([_NO_WRAP]), end="", crop=False)

    def _leave_screen(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._is_on:
                self._is_on = False
                self._console.print(Segments([_WRAP]), end="", crop=False)
                self._console.show_cursor(show=True)
                self._console.set_alt_screen(False)

    def _print_summary(self, finished: RunFinished) -> None:
        try:
            self._print(summary.verdict_lines(finished))
            if finished.has_answer and not self._outlets.is_split:
                self._print([Text(), summary.answer_heading(finished), Text()])
                text = terminal_safe(finished.text[:_LONGEST_ANSWER])
                self._print([Padding(Trimmed(TerminalMarkdown(text)), (0, 0, 0, 2), expand=False)])
                if len(finished.text) > _LONGEST_ANSWER:
                    self._print([Text("  … the rest is in the report", "dim")])
            self._print([Text()])
            details = summary.detail_lines(self.team, finished, self._resume(finished), has_report=self._has_report)
            self._print(details)
            if self._fault:
                self._print(
                    [Text(f"  The display failed, but the run continued: {terminal_safe(self._fault)}", "yellow")]
                )
        except (OSError, ValueError):  # the output is closed
            self._on_gone()
        if finished.has_answer and self._outlets.is_split:
            self._outlets.write_answer(finished.text)

    def _print(self, renderables: Iterable[RenderableType]) -> None:
        for each in renderables:
            self._console.print(TerminalSafe(each), width=min(self._console.width, _WIDEST), crop=False)
