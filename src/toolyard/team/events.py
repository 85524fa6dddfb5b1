"""The events of a run, one schema for the terminal, for programs (`--json`) and for the report.

Every event has a time, an agent (empty for the whole run) and a round. `from_json` reverses `as_json`, and readers
skip unknown events.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias, cast

from toolyard.core.errors import ValidationError
from toolyard.models.messages import ModelUsage


class EndReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"  # the only agent has answered
    CONSENSUS = "consensus"  # every active agent voted, and none had a better answer
    ROUNDS = "rounds"
    TIME = "time"
    TOKENS = "tokens"
    COST = "cost"
    INTERRUPTED = "interrupted"  # by the user; the run can be resumed
    FAILED = "failed"  # no agent has answered


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """The agent as the run has opened it."""

    id: str
    backend: str
    model: str = ""
    workspace: str = ""
    mode: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""

    type: ClassVar[str] = ""
    agent: str = ""
    round: int = 0
    at: float = field(default_factory=time.time)
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The run has opened its agents and starts."""

    type: ClassVar[str] = "run_started"
    run: str
    task: str
    agents: tuple[AgentInfo, ...]
    folder: str
    """Folder with the state, the log and the report of this run."""
    resumed: bool = False
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """The limits that are set: `rounds`, `seconds`, `tokens`, `cost`."""
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """In a resumed run: the files that each agent had changed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted(Event):
    """A round starts with these agents."""

    type: ClassVar[str] = "round_started"
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """The agent starts to work on this round."""

    type: ClassVar[str] = "agent_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    """A piece of text from the model."""

    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta(Event):
    """A piece of thinking from the model."""

    type: ClassVar[str] = "thinking_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTakenBack(Event):
    """The text since the last turn is void: the turn is retried."""

    type: ClassVar[str] = "text_taken_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    """The agent calls a tool."""

    type: ClassVar[str] = "tool_called"
    call: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    """A tool call has ended."""

    type: ClassVar[str] = "tool_returned"
    call: str
    tool: str
    ok: bool
    text: str
    """The beginning of the text that the model got."""
    seconds: float = 0.0
    exit_code: int | None = None
    """Exit code of a command or of code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperated(Event):
    """A call that reads or changes files has ended, including calls made by the agent's code."""

    type: ClassVar[str] = "file_operation"
    tool: str
    outcome: str
    """`ok`, `denied` or `failed`."""
    paths: tuple[str, ...]
    """Absolute paths that the call named or touched; empty for a command."""
    changes_files: bool
    snapshot: str
    """The newest snapshot at that moment, taken before the change."""
    from_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """A snapshot was taken in which these paths differ from the previous one."""

    type: ClassVar[str] = "files_changed"
    paths: tuple[str, ...]
    total: int
    """Total number; `paths` may be truncated."""
    snapshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Event):
    """A model is unreachable or busy; the call is retried."""

    type: ClassVar[str] = "waiting"
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened(Event):
    """A conversation was shortened to fit the model's context (estimated tokens)."""

    type: ClassVar[str] = "shortened"
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Used(Event):
    """What the agent has spent in this run so far."""

    type: ClassVar[str] = "used"
    spent: ModelUsage
    turns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Event):
    """The agent has answered the round."""

    type: ClassVar[str] = "answered"
    text: str
    snapshot: str = ""
    """Snapshot of its files at that moment; empty if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voted(Event):
    """The agent has voted instead of answering."""

    type: ClassVar[str] = "voted"
    choice: str
    """The agent it votes for; empty if it named an unknown agent."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed(Event):
    """The agent is out of the run; the others continue."""

    type: ClassVar[str] = "agent_failed"
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """A message for the user."""

    type: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """The last event of a run."""

    type: ClassVar[str] = "run_finished"
    run: str
    ended: EndReason
    why: str
    """The reason in a sentence."""
    winner: str = ""
    text: str = ""
    snapshot: str = ""
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The vote of each agent in the last round."""
    spent: ModelUsage = field(default_factory=ModelUsage)
    seconds: float = 0.0
    rounds: int = 0
    began: float = 0.0
    """Unix time in seconds; of the first start if the run was resumed."""
    folder: str = ""

    @property
    def has_answer(self) -> bool:
        return bool(self.winner)


TeamEvent: TypeAlias = (
    RunStarted
    | RoundStarted
    | AgentStarted
    | TextDelta
    | ThinkingDelta
    | TextTakenBack
    | ToolCalled
    | ToolReturned
    | FileOperated
    | FilesChanged
    | Waiting
    | Shortened
    | Used
    | Answered
    | Voted
    | AgentFailed
    | Notice
    | RunFinished
)
EVENTS: Mapping[str, type[TeamEvent]] = {each.type: each for each in TeamEvent.__args__}


def as_json(event: TeamEvent) -> dict[str, Any]:
    """Returns the event as a JSON object with its `type`."""
    return {"type": event.type, **dataclasses.asdict(event)}


def from_json(record: Mapping[str, Any]) -> TeamEvent:
    """Parses what `as_json` returned. Raises ValidationError for an unknown type."""
    kind = EVENTS.get(str(record.get("type")))
    if kind is None:
        raise ValidationError.of("type", f"{record.get('type')!r} is none of {', '.join(EVENTS)}")
    values: dict[str, Any] = {
        each.name: record[each.name] for each in dataclasses.fields(kind) if each.name in record
    }
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(cast("list[Any]", value))
    if kind is RunStarted:
        values["agents"] = tuple(_agent_info(each) for each in values.get("agents", ()))
        values["changed"] = {agent: tuple(paths) for agent, paths in values.get("changed", {}).items()}
    if "spent" in values:
        values["spent"] = ModelUsage(**values["spent"])
    if "ended" in values:
        values["ended"] = EndReason(values["ended"])
    return kind(**values)


def _agent_info(record: Mapping[str, Any]) -> AgentInfo:
    values: dict[str, Any] = {**record, "tools": tuple(record.get("tools", ()))}
    return AgentInfo(**values)
