"""The part that all displays for people share: what is printed, in which order, with blank lines between parts.

All text is escaped by `terminal_safe` first, so that texts of models, files and providers cannot control the
terminal.
"""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from rich.text import Text

from toolyard.cli.drive import rows
from toolyard.cli.drive.changes import RunChanges
from toolyard.cli.drive.format import describe_result
from toolyard.config.settings import Settings
from toolyard.drivers import Fault, Finished, Message, SessionStarted, TextDelta, ToolCall, ToolResult

_COMPARED_CHARS: Final = 80
"""Characters by which an error is recognised in the reason of the end."""


@dataclass(frozen=True, slots=True)
class DriveInfo:
    """What is known about a run before it begins."""

    title: str
    """The title of the CLI."""
    workspace: str
    settings: Settings


class DriveDisplay(Protocol):
    """Shows a run. Owns what it has drawn until `close()`, which restores the terminal."""

    def show(self, message: Message) -> None:
        """Shows a message of the run."""
        ...

    def tick(self) -> None:
        """Redraws animated parts; called periodically."""
        ...

    def show_changes(self, changes: RunChanges | None) -> None:
        """Shows what the run changed, after the last message."""
        ...

    def show_cancelling(self) -> None:
        """Shows that the run is being cancelled."""
        ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Draws nothing while the user is asked something."""
        ...

    def close(self) -> None:
        """Restores the terminal."""
        ...


class OutputPart(Enum):
    """Parts of the output; a blank line separates two of them."""

    HEADING = auto()
    TEXT = auto()
    CALLS = auto()
    END = auto()


@dataclass(slots=True)
class OpenCall:
    """A call without a result."""

    call: ToolCall
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self.began


class MessagePresenter(abc.ABC):
    """Turns messages into lines; subclasses print them."""

    def __init__(self, about: DriveInfo) -> None:
        self.about = about
        self.open_calls: dict[str, OpenCall] = {}
        self.part: OutputPart | None = None
        self._pending_fault: Fault | None = None

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """The width of a line."""
        ...

    @abc.abstractmethod
    def print_lines(self, styled_lines: Iterable[Text]) -> None:
        """Prints lines."""

    @abc.abstractmethod
    def print_text(self, words: str) -> None:
        """Prints a piece of the model's text."""

    @abc.abstractmethod
    def end_text(self) -> None:
        """Ends the model's text before something else is printed."""

    def begin_part(self, part: OutputPart) -> None:
        """Starts a part; prints a blank line if it differs from the last one."""
        if self.part is not None and self.part is not part:
            self.print_lines([Text()])
        self.part = part

    def show(self, message: Message) -> None:
        """Prints a message."""
        if self._pending_fault is not None:
            self._show_pending_fault(message)
        match message:
            case SessionStarted():
                self.begin_part(OutputPart.HEADING)
                about = self.about
                self.print_lines(
                    [rows.heading_line(about.title, message.model, about.workspace, about.settings.home)]
                )
            case TextDelta():
                self.print_text(message.text)
            case ToolCall():
                self.end_text()
                self.open_calls[message.id] = OpenCall(message)
            case ToolResult():
                self._show_result(message)
            case Fault():
                self._pending_fault = message  # the last message may repeat it
            case Finished():
                self._show_finished(message)
            case _:  # token counts: the last message has the totals
                pass

    def show_changes(self, changes: RunChanges | None) -> None:
        """Prints what the run changed."""
        if changes is not None:
            self.print_lines(rows.change_lines(changes))

    def _show_pending_fault(self, message: Message) -> None:
        held, self._pending_fault = self._pending_fault, None
        if held is None or (isinstance(message, Finished) and held.message[:_COMPARED_CHARS] in message.reason):
            return
        self.end_text()
        self.begin_part(OutputPart.CALLS)
        self.print_lines(rows.fault_lines(held))

    def _show_result(self, result: ToolResult) -> None:
        open_call = self.open_calls.pop(result.id, None)
        if open_call is None:
            return
        self.end_text()
        self.begin_part(OutputPart.CALLS)
        came = describe_result(open_call.call, result.text, ok=result.ok, exit_code=result.exit_code)
        seconds = open_call.seconds if result.seconds is None else result.seconds
        self.print_lines(rows.finished_call_lines(open_call.call, self.about.workspace, came, seconds, self.width))

    def _show_finished(self, finished: Finished) -> None:
        self.end_text()
        unanswered, self.open_calls = [each.call for each in self.open_calls.values()], {}
        if unanswered:
            self.begin_part(OutputPart.CALLS)
            self.print_lines(rows.unanswered_call_line(call, self.about.workspace, self.width) for call in unanswered)
        self.begin_part(OutputPart.END)
        self.print_lines(rows.ending_lines(finished))
