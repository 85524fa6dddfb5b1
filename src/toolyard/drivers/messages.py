"""The messages of a run, the same for every agent CLI: one small type for each event.

A run ends with exactly one `Finished`. `from_json` reverses `as_json`; the lines of `toolyard drive --json` are these
messages.
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
    """It ran without our tools: nothing that it reports was done in the workspace."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class ResultStatus(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    FAILED = "failed"
    """The tool failed, such as a command that exits with 3, or the call was invalid."""
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
    """Token counts as far as the CLI reports them."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens read from the provider's cache; included in `input`."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The CLI has started."""

    type: ClassVar[str] = "session_started"
    run: str
    cli: str
    model: str = ""
    session: str = ""
    """The CLI's own id of the conversation."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text."""

    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a tool."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    """Our name of the tool if it is one of ours, otherwise the CLI's."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    ours: bool = True


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    type: ClassVar[str] = "tool_result"
    id: str
    status: ResultStatus
    text: str = ""
    seconds: float | None = None
    """Seconds that our server took; None for a call that it did not see."""
    structured: dict[str, Any] = field(default_factory=dict[str, Any])
    """The structured content of the result: the `exit_code` of a command, the `error` of a failed call."""
    images: tuple[ImageData, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is ResultStatus.OK

    @property
    def exit_code(self) -> int | None:
        """Exit code of a command or of code, if known."""
        return exit_code_of(self.structured)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost so far."""

    type: ClassVar[str] = "usage"
    tokens: Tokens
    cost: float | None = None
    """In USD: as reported by the CLI, else by the list price of its model. None if unknown."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error. The run may continue."""

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
    """Why the run did not succeed; empty if it did."""
    hint: str = ""
    text: str = ""
    """The complete text of the model."""
    attached: bool = False
    """Whether our server saw this run list its tools."""
    exit_code: int | None = None
    """None if the CLI was never started. A signal is a negative number."""
    tokens: Tokens = field(default_factory=Tokens)
    cost: float | None = None
    """As in `Usage`."""
    seconds: float = 0.0
    changed: tuple[str, ...] = ()
    """Paths below the workspace that changed during the run, at most 1,000, according to snapshots."""
    snapshot: str = ""
    """The newest snapshot of the workspace; empty if nothing changed or snapshots cannot be read."""
    snapshot_before: str = ""
    """Restoring this snapshot undoes the run."""

    @property
    def succeeded(self) -> bool:
        return self.status is Status.SUCCEEDED


Message: TypeAlias = SessionStarted | TextDelta | ToolCall | ToolResult | Usage | Fault | Finished

_TYPES: Mapping[str, type[Message]] = {
    each.type: each for each in (SessionStarted, TextDelta, ToolCall, ToolResult, Usage, Fault, Finished)
}


def as_json(message: Message) -> dict[str, Any]:
    """Returns the message as a JSON object. A tool result has a boolean `ok` in addition to its status."""
    extra = {"ok": message.ok} if isinstance(message, ToolResult) else {}
    return {"type": message.type, **asdict(message), **extra}


def from_json(record: Mapping[str, Any]) -> Message:
    """Parses what `as_json` returned. Ignores unknown fields, so older readers can read newer messages."""
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
