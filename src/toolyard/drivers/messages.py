"""What a run of an agent CLI says, whichever CLI it is: one small type for each thing that happens.

A run ends with exactly one `Finished`, and nothing follows it. `as_json` and `from_json` are each other's inverse:
the lines that `toolyard drive --json` prints are these messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias, cast

from toolyard.core.calls import exit_code_of
from toolyard.core.errors import ValidationError


class Status(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_ATTACHED = "not_attached"
    """It ran, but without our tools: whatever it says it did, it did not do it here."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class ResultStatus(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    FAILED = "failed"
    """The tool ran and failed, such as a command that exits with 3, or the call was wrong."""
    REFUSED = "refused"
    """The policy or the CLI refused the call: nothing was done."""


@dataclass(frozen=True, slots=True)
class ImageData:
    """An image that a tool returned."""

    data: str
    """Base64."""
    media_type: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a model counted, as far as its CLI tells."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Of the input, what was read from the provider's cache."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The CLI is up."""

    type: ClassVar[str] = "session_started"
    run: str
    cli: str
    model: str = ""
    session: str = ""
    """The CLI's own name for the conversation."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what the model says."""

    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    """As we call the tool, where it is one of ours; else as the CLI does."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    ours: bool = True


@dataclass(frozen=True, slots=True)
class ToolResult:
    type: ClassVar[str] = "tool_result"
    id: str
    status: ResultStatus
    text: str = ""
    seconds: float | None = None
    """How long our server took; None for a call that it did not see."""
    structured: dict[str, Any] = field(default_factory=dict[str, Any])
    """The structured content of the result: the `exit_code` of a command, the `error` of a failed call."""
    images: tuple[ImageData, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is ResultStatus.OK

    @property
    def exit_code(self) -> int | None:
        """Of a command or of code, where it is known."""
        return exit_code_of(self.structured)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens so far."""

    type: ClassVar[str] = "usage"
    tokens: Tokens
    cost: float | None = None
    """In US dollars: as the CLI says, or else by the list price of its model. None where neither is known."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something went wrong. The run may go on."""

    type: ClassVar[str] = "error"
    message: str
    hint: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The last message of every run."""

    type: ClassVar[str] = "finished"
    status: Status
    reason: str = ""
    """Why it did not succeed, in words; empty where it did."""
    hint: str = ""
    text: str = ""
    """All that the model said."""
    attached: bool = False
    """Whether our server saw this run list its tools."""
    exit_code: int | None = None
    """None where the CLI was never started. A signal is its number, negative."""
    tokens: Tokens = field(default_factory=Tokens)
    cost: float | None = None
    """As in `Usage`."""
    seconds: float = 0.0
    changed: tuple[str, ...] = ()
    """Paths below the workspace that are other than before the run, up to a thousand; as snapshots tell them."""
    snapshot: str = ""
    """The newest one of the workspace; empty where the run changed nothing, or where snapshots cannot be read."""
    snapshot_before: str = ""
    """Restoring this one undoes the run."""

    @property
    def succeeded(self) -> bool:
        return self.status is Status.SUCCEEDED


Message: TypeAlias = SessionStarted | TextDelta | ToolCall | ToolResult | Usage | Fault | Finished

_TYPES: Mapping[str, type[Message]] = {
    each.type: each for each in (SessionStarted, TextDelta, ToolCall, ToolResult, Usage, Fault, Finished)
}


def as_json(message: Message) -> dict[str, Any]:
    """The message as an object of JSON. A tool result says `ok` beside its status, for those who want no more."""
    extra = {"ok": message.ok} if isinstance(message, ToolResult) else {}
    return {"type": message.type, **asdict(message), **extra}


def from_json(record: Mapping[str, Any]) -> Message:
    """The message that `as_json` wrote. What is unknown in it is passed over, so that older readers go on reading."""
    kind = _TYPES.get(str(record.get("type")))
    if kind is None:
        known = ", ".join(_TYPES)
        raise ValidationError.of("type", f"{record.get('type')!r} is none of {known}")
    values = {each.name: record[each.name] for each in fields(kind) if each.name in record}
    if "tokens" in values:
        values["tokens"] = Tokens(**cast("dict[str, int]", values["tokens"]))
    if "changed" in values:
        values["changed"] = tuple(cast("list[str]", values["changed"]))
    if "status" in values:
        values["status"] = (ResultStatus if kind is ToolResult else Status)(values["status"])
    if "images" in values:
        values["images"] = tuple(ImageData(**each) for each in cast("list[dict[str, str]]", values["images"]))
    return kind(**values)
