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
from toolyard.cli.drive.changes import Changes
from toolyard.cli.drive.format import came_of
from toolyard.config.settings import Settings
from toolyard.drivers import Fault, Finished, Message, SessionStarted, TextDelta, ToolCall, ToolResult

_SAME: Final = 80
"""Characters by which an error is known again in the reason of the end."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a run before it begins."""

    title: str
    """Of the CLI."""
    workspace: str
    settings: Settings


class Showing(Protocol):
    """Owns what it has drawn until `close()`, which leaves the terminal as it was."""

    def show(self, message: Message) -> None: ...

    def tick(self) -> None:
        """Called now and then, so that something moves."""
        ...

    def changed(self, changes: Changes | None) -> None:
        """Told after the last message."""
        ...

    def cancelling(self) -> None: ...

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Draw nothing for as long as somebody is asked something."""
        ...

    def close(self) -> None: ...


class Part(Enum):
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


class Telling(abc.ABC):
    """Says what to print; a screen says how."""

    def __init__(self, about: About) -> None:
        self.about = about
        self.calls: dict[str, OpenCall] = {}
        self.part: Part | None = None
        self._held: Fault | None = None

    @property
    @abc.abstractmethod
    def width(self) -> int: ...

    @abc.abstractmethod
    def put(self, told: Iterable[Text]) -> None:
        """Print lines."""

    @abc.abstractmethod
    def text(self, words: str) -> None:
        """Print a piece of what the model says."""

    @abc.abstractmethod
    def end_text(self) -> None:
        """Something else follows."""

    def enter(self, part: Part) -> None:
        """Whatever is printed next belongs to `part`."""
        if self.part is not None and self.part is not part:
            self.put([Text()])
        self.part = part

    def show(self, message: Message) -> None:
        if self._held is not None:
            self._tell_held(message)
        match message:
            case SessionStarted():
                self.enter(Part.HEADING)
                about = self.about
                self.put([lines.heading(about.title, message.model, about.workspace, about.settings.home)])
            case TextDelta():
                self.text(message.text)
            case ToolCall():
                self.end_text()
                self.calls[message.id] = OpenCall(message)
            case ToolResult():
                self._answered(message)
            case Fault():
                self._held = message  # the last message may say the same
            case Finished():
                self._finished(message)
            case _:  # tokens so far: the last message has them all
                pass

    def changed(self, changes: Changes | None) -> None:
        if changes is not None:
            self.put(lines.changed(changes))

    def _tell_held(self, message: Message) -> None:
        held, self._held = self._held, None
        if held is None or (isinstance(message, Finished) and held.message[:_SAME] in message.reason):
            return
        self.end_text()
        self.enter(Part.CALLS)
        self.put(lines.trouble(held))

    def _answered(self, result: ToolResult) -> None:
        opened = self.calls.pop(result.id, None)
        if opened is None:
            return
        self.end_text()
        self.enter(Part.CALLS)
        came = came_of(opened.call, result.text, ok=result.ok, exit_code=result.exit_code)
        seconds = opened.seconds if result.seconds is None else result.seconds
        self.put(lines.over(opened.call, self.about.workspace, came, seconds, self.width))

    def _finished(self, finished: Finished) -> None:
        self.end_text()
        left, self.calls = [each.call for each in self.calls.values()], {}
        if left:
            self.enter(Part.CALLS)
            self.put(lines.unanswered(call, self.about.workspace, self.width) for call in left)
        self.enter(Part.END)
        self.put(lines.ending(finished))
