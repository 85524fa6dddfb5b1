"""A tool call and its result, as they travel between a surface and dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolyard.core.actions import Action, Decision
from toolyard.core.ids import new_id


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Blob:
    """Any other file: a sound, an archive. `uri` says where it came from."""

    data: bytes
    media_type: str
    uri: str


@dataclass(frozen=True, slots=True)
class Link:
    """Something that can be read as a resource, at `uri`."""

    uri: str
    name: str
    media_type: str
    description: str = ""


Part = Text | Image | Blob | Link


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gives back: parts for a reader, `structured` for a program. Both say the same."""

    parts: tuple[Part, ...]
    structured: dict[str, Any]
    failed: bool = False
    """Whether the tool did its work and reports a failure, such as a command that exits with 1."""

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


def exit_code_of(structured: Mapping[str, Any]) -> int | None:
    """What a command or code ended with, where the result says so."""
    code = structured.get("exit_code")
    return code if type(code) is int else None


class AnswerPending(Exception):  # noqa: N818 - not an error: the answer comes with the next request
    """Raised by an Asker that can only put the question and must end the call until the answer arrives."""


class ApprovalCallback(Protocol):
    """Puts a decision of `ask` to whoever may answer it. False where nobody can be asked."""

    async def __call__(self, action: Action, decision: Decision) -> bool: ...


class ProgressCallback(Protocol):
    """Told now and then how far a long call has come."""

    async def __call__(self, done: float, total: float | None, message: str) -> None: ...


async def deny_without_asking(action: Action, decision: Decision) -> bool:  # noqa: ARG001 - the Asker contract
    """The answer where nobody can be asked."""
    return False


async def ignore_progress(done: float, total: float | None, message: str) -> None:
    """Tells nobody."""


class OutputCallback(Protocol):
    """Told what a run prints, as it comes, in the thread that runs it: `stdout` or `stderr`, and the bytes."""

    def __call__(self, stream: str, data: bytes, /) -> None: ...


def discard_output(stream: str, data: bytes, /) -> None:
    """Tells nobody: the result has it all."""


class WarningCallback(Protocol):
    """Shows a person a warning before the call goes on, in the thread that runs it."""

    def __call__(self, text: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One request to run one tool, with who asks and how to reach them."""

    tool: str
    arguments: dict[str, Any]
    surface: str
    agent: str = "agent"
    session: str = ""
    ask: ApprovalCallback = deny_without_asking
    progress: ProgressCallback = ignore_progress
    on_output: OutputCallback = discard_output
    warn: WarningCallback | None = None
    """None where no person sees a warning in time."""
    hidden: bool = False
    """Asks for one of the tools that serve a surface and are not shown to its clients."""
    id: str = field(default_factory=new_id)


class Dispatcher(Protocol):
    """The one way any tool is run."""

    async def __call__(self, call: Call) -> Result: ...
