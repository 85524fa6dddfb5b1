"""Shows a run in a terminal. Finished lines are printed once; the lines below them are redrawn: partial text, running
calls and the elapsed time.

`LiveDriveDisplay` owns these lines and the cursor. `close()` releases them.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from toolyard.cli.common.terminal_text import TerminalMarkdown, TerminalSafe, Trimmed
from toolyard.cli.drive import rows
from toolyard.cli.drive.format import format_duration, terminal_safe
from toolyard.cli.drive.presenter import DriveInfo, MessagePresenter, OutputPart
from toolyard.drivers import Finished, Message, SessionStarted

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND: Final = 10
_WIDEST: Final = 100
"""Columns: longer lines are hard to read."""
_RESERVED_LINES: Final = 6
"""Lines of the terminal that the live region leaves free."""
_LONGEST_BLOCK: Final = 16_000
"""Maximum size of a paragraph that is redrawn as it grows; a longer one is printed in parts."""
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


class LiveDriveDisplay(MessagePresenter):
    """A display with a live region at the bottom of the terminal."""

    def __init__(self, about: DriveInfo, console: Console) -> None:
        super().__init__(about)
        self._console = console
        self._text = ""
        self._began = time.monotonic()
        self._status, self._is_cancelling = f"Starting {about.title}", False
        self._live = Live(
            _Region(self),
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._live.start(refresh=True)

    @property
    def width(self) -> int:
        return min(self._console.width, _WIDEST)

    def show(self, message: Message) -> None:
        if isinstance(message, SessionStarted):
            self._status = f"{self.about.title} is working"
        if isinstance(message, Finished):
            self.end_text()
            self.close()
        super().show(message)

    def print_lines(self, styled_lines: Iterable[Text]) -> None:
        for line in styled_lines:
            indent = len(line.plain) - len(line.plain.lstrip(" "))
            # Wrapped lines keep the indent.
            self._print(
                line if line.no_wrap or not indent else Padding(line[indent:], (0, 0, 0, indent), expand=False)
            )

    def print_text(self, words: str) -> None:
        begins_line = self._text.endswith("\n")
        self._text += terminal_safe(words)
        if not begins_line and "\n" not in words and len(self._text) < _LONGEST_BLOCK:
            return
        whole, self._text, fence_line = split_blocks(self._text)
        for block in whole:
            self._print_block(block)
        if len(self._text) > _LONGEST_BLOCK:
            self._print_block(self._text)
            self._text = f"{fence_line}\n" if fence_line else ""

    def end_text(self) -> None:
        whole, rest, _ = split_blocks(self._text)
        self._text = ""
        for block in (*whole, rest):
            self._print_block(block)

    def tick(self) -> None:
        if self._live.is_started:
            self._live.refresh()

    def show_cancelling(self) -> None:
        self._status, self._is_cancelling = "Cancelling", True
        self.tick()

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start(refresh=True)

    def close(self) -> None:
        self._live.stop()

    def live_region(self) -> Iterator[RenderableType]:
        """Yields the lines that are still changing."""
        now = time.monotonic()
        frame = _FRAMES[int(now * _FRAMES_A_SECOND) % len(_FRAMES)]
        if self._text.strip():
            yield Text()
            yield Trimmed(
                TerminalMarkdown(self._text), max(self._console.height - _RESERVED_LINES - len(self.open_calls), 1)
            )
        elif self.open_calls and self.part is not OutputPart.CALLS:
            yield Text()
        for each in self.open_calls.values():
            yield rows.running_call_line(each.call, self.about.workspace, each.seconds, frame, self.width)
        yield Text()
        elapsed = f"  {format_duration(now - self._began)}" if now - self._began >= 1 else ""
        hint = "Ctrl-C again stops immediately" if self._is_cancelling else "Ctrl-C cancels"
        status = Text.assemble((frame, "cyan"), f" {self._status}{elapsed}", (f"  {hint}", "dim"))
        status.truncate(self.width, overflow="ellipsis")
        yield status

    def _print_block(self, block: str) -> None:
        if not block.strip():
            return
        is_next = self.part is OutputPart.TEXT
        self.begin_part(OutputPart.TEXT)
        if is_next:
            self._print(Text())
        self._print(Trimmed(TerminalMarkdown(block)))

    def _print(self, what: RenderableType) -> None:
        self._console.print(TerminalSafe(what), width=self.width, crop=False)


def split_blocks(text: str) -> tuple[list[str], str, str]:
    """Splits a text into complete Markdown blocks and the rest.

    If the rest is inside a code fence, the line that opened the fence is returned as well.
    """
    found: list[str] = []
    start = position = 0
    fence, fence_line, is_after_gap = "", "", False
    for line in text.splitlines(keepends=True):
        mark, is_blank = _FENCE.match(line), not line.strip()
        # An indented line continues the list item above it.
        if not fence and is_after_gap and not is_blank and not line[0].isspace():
            found.append(text[start:position])
            start = position
        if mark and not fence:
            fence, fence_line = mark[1], line.rstrip("\n")
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = fence_line = ""
        is_after_gap = is_blank
        position += len(line)
    return found, text[start:], fence_line


class _Region:
    def __init__(self, showing: LiveDriveDisplay) -> None:
        self._showing = showing

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.update(width=self._showing.width)
        for each in self._showing.live_region():
            yield from console.render(TerminalSafe(each), narrow)
