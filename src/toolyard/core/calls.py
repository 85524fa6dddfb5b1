"""Tool calls and their results, as transports pass them to the dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolyard.core.actions import Action, Decision
from toolyard.core.ids import new_id


@dataclass(frozen=True, slots=True)
class Text:
    """A text part of a result."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image part of a result."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Blob:
    """Any other file, such as audio or an archive. `uri` names its source."""

    data: bytes
    media_type: str
    uri: str


@dataclass(frozen=True, slots=True)
class Link:
    """A reference to a resource that can be read at `uri`."""

    uri: str
    name: str
    media_type: str
    description: str = ""


Part = Text | Image | Blob | Link


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool: `parts` for readers, `structured` for programs. Both carry the same information."""

    parts: tuple[Part, ...]
    structured: dict[str, Any]
    failed: bool = False
    """Whether the tool ran and reports a failure, such as a command that exits with 1."""

    @property
    def text(self) -> str:
        """All text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def exit_code_of(structured: Mapping[str, Any]) -> int | None:
    """Returns the exit code that a structured result reports, or None."""
    code = structured.get("exit_code")
    return code if type(code) is int else None


class AnswerPending(Exception):  # noqa: N818 - not an error: the answer arrives with the next request
    """Raised by an approval callback that can only pose the question: the call ends until the answer arrives."""


class ApprovalCallback(Protocol):
    """Asks a person to approve an action whose decision is `ask`. Returns False if no person can be asked."""

    async def __call__(self, action: Action, decision: Decision) -> bool: ...


class ProgressCallback(Protocol):
    """Receives progress reports of a long call."""

    async def __call__(self, done: float, total: float | None, message: str) -> None: ...


async def deny_without_asking(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    """Denies every request: the default where no person can be asked."""
    return False


async def ignore_progress(done: float, total: float | None, message: str) -> None:
    """Discards the report."""


class OutputCallback(Protocol):
    """Receives what a run prints, in the thread that runs it: `stdout` or `stderr`, and the bytes."""

    def __call__(self, stream: str, data: bytes, /) -> None: ...


def discard_output(stream: str, data: bytes, /) -> None:
    """Discards the output; the result still contains it."""


class WarningCallback(Protocol):
    """Shows a warning to a person before the call continues, in the thread that runs the call."""

    def __call__(self, text: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One request to run one tool, with its origin and the callbacks that reach the caller."""

    tool: str
    arguments: dict[str, Any]
    surface: str
    agent: str = "agent"
    session: str = ""
    ask: ApprovalCallback = deny_without_asking
    progress: ProgressCallback = ignore_progress
    on_output: OutputCallback = discard_output
    warn: WarningCallback | None = None
    """None if no person could see a warning in time."""
    hidden: bool = False
    """Whether the call may use tools that a transport needs and does not list to its clients."""
    id: str = field(default_factory=new_id)


class Dispatcher(Protocol):
    """Runs a tool call. The only way any tool is run."""

    async def __call__(self, call: Call) -> Result: ...
