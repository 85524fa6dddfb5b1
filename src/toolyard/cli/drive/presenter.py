"""What every screen shares that tells of a run to people: what is said in which order, with gaps between.

Whatever is printed is passed through `clean` first: no text of a model, a file or a provider can speak to a terminal.
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

from toolyard.cli.drive import rows as lines
from toolyard.cli.drive.changes import RunChanges
from toolyard.cli.drive.format import describe_result
from toolyard.config.settings import Settings
from toolyard.drivers import Fault, Finished, Message, SessionStarted, TextDelta, ToolCall, ToolResult

_COMPARED_CHARS: Final = 80
"""Characters by which an error is known again in the reason of the end."""


@dataclass(frozen=True, slots=True)
class DriveInfo:
    """What is known of a run before it begins."""

    title: str
    """Of the CLI."""
    workspace: str
    settings: Settings


class DriveDisplay(Protocol):
    """Owns what it has drawn until `close()`, which leaves the terminal as it was."""

    def show(self, message: Message) -> None: ...

    def tick(self) -> None:
        """Called now and then, so that something moves."""
        ...

    def show_changes(self, changes: RunChanges | None) -> None:
        """Told after the last message."""
        ...

    def show_cancelling(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Draw nothing for as long as somebody is asked something."""
        ...

    def close(self) -> None: ...


class OutputPart(Enum):
    """Of what is told: between two there is a gap."""

    HEADING = auto()
    TEXT = auto()
    CALLS = auto()
    END = auto()


@dataclass(slots=True)
class OpenCall:
    call: ToolCall
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class MessagePresenter(abc.ABC):
    """Says what to print; a screen says how."""

    def __init__(self, about: DriveInfo) -> None:
        self.about = about
        self.open_calls: dict[str, OpenCall] = {}
        self.part: OutputPart | None = None
        self._pending_fault: Fault | None = None

    @property
    @abc.abstractmethod
    def width(self) -> int: ...

    @abc.abstractmethod
    def print_lines(self, styled_lines: Iterable[Text]) -> None:
        """Print lines."""

    @abc.abstractmethod
    def print_text(self, words: str) -> None:
        """Print a piece of what the model says."""

    @abc.abstractmethod
    def end_text(self) -> None:
        """Something else follows."""

    def begin_part(self, part: OutputPart) -> None:
        """Whatever is printed next belongs to `part`."""
        if self.part is not None and self.part is not part:
            self.print_lines([Text()])
        self.part = part

    def show(self, message: Message) -> None:
        if self._pending_fault is not None:
            self._show_pending_fault(message)
        match message:
            case SessionStarted():
                self.begin_part(OutputPart.HEADING)
                about = self.about
                self.print_lines(
                    [lines.heading_line(about.title, message.model, about.workspace, about.settings.home)]
                )
            case TextDelta():
                self.print_text(message.text)
            case ToolCall():
                self.end_text()
                self.open_calls[message.id] = OpenCall(message)
            case ToolResult():
                self._show_result(message)
            case Fault():
                self._pending_fault = message  # the last message may say the same
            case Finished():
                self._show_finished(message)
            case _:  # tokens so far: the last message has them all
                pass

    def show_changes(self, changes: RunChanges | None) -> None:
        if changes is not None:
            self.print_lines(lines.change_lines(changes))

    def _show_pending_fault(self, message: Message) -> None:
        held, self._pending_fault = self._pending_fault, None
        if held is None or (isinstance(message, Finished) and held.message[:_COMPARED_CHARS] in message.reason):
            return
        self.end_text()
        self.begin_part(OutputPart.CALLS)
        self.print_lines(lines.fault_lines(held))

    def _show_result(self, result: ToolResult) -> None:
        opened = self.open_calls.pop(result.id, None)
        if opened is None:
            return
        self.end_text()
        self.begin_part(OutputPart.CALLS)
        came = describe_result(opened.call, result.text, ok=result.ok, exit_code=result.exit_code)
        seconds = opened.seconds if result.seconds is None else result.seconds
        self.print_lines(lines.finished_call_lines(opened.call, self.about.workspace, came, seconds, self.width))

    def _show_finished(self, finished: Finished) -> None:
        self.end_text()
        left, self.open_calls = [each.call for each in self.open_calls.values()], {}
        if left:
            self.begin_part(OutputPart.CALLS)
            self.print_lines(lines.unanswered_call_line(call, self.about.workspace, self.width) for call in left)
        self.begin_part(OutputPart.END)
        self.print_lines(lines.ending_lines(finished))
