"""What is heard of a run, as one schema: for the terminal, for programs (`--json`), and for the report.

Every event says when it happened, which agent it is about (empty: the whole run) and in which round. `as_json` and
`from_json` are exact opposites, and readers pass over what they do not know.
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
    """Why a run is over."""

    ANSWERED = "answered"  # one agent, and it has answered
    CONSENSUS = "consensus"  # every agent at work voted, and nobody had something better
    ROUNDS = "rounds"
    TIME = "time"
    TOKENS = "tokens"
    COST = "cost"
    INTERRUPTED = "interrupted"  # by the user; can be resumed
    FAILED = "failed"  # nobody has answered


@dataclass(frozen=True, slots=True)
class AgentInfo:
    id: str
    backend: str
    model: str = ""
    workspace: str = ""
    mode: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    type: ClassVar[str] = ""
    agent: str = ""
    round: int = 0
    at: float = field(default_factory=time.time)
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    type: ClassVar[str] = "run_started"
    run: str
    task: str
    agents: tuple[AgentInfo, ...]
    folder: str
    """Where the state, the log and the report of this run are."""
    resumed: bool = False
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """What ends it: `rounds`, `seconds`, `tokens`, `cost`, those that are set."""
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Of a run that is resumed: which files agents had changed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted(Event):
    type: ClassVar[str] = "round_started"
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """It sets to work on this round."""

    type: ClassVar[str] = "agent_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    type: ClassVar[str] = "text_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta(Event):
    type: ClassVar[str] = "thinking_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTakenBack(Event):
    """The text since the last turn does not count: the turn is tried again."""

    type: ClassVar[str] = "text_taken_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    type: ClassVar[str] = "tool_called"
    call: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned(Event):
    type: ClassVar[str] = "tool_returned"
    call: str
    tool: str
    ok: bool
    text: str
    """The beginning of what the model was shown."""
    seconds: float = 0.0
    exit_code: int | None = None
    """Of a command or of code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperated(Event):
    """A call that reads or changes files has ended, one that the agent's code made included."""

    type: ClassVar[str] = "file_operation"
    tool: str
    outcome: str
    """`ok`, `denied` or `failed`."""
    paths: tuple[str, ...]
    """What it named or touched, as absolute paths; none of a command."""
    changes_files: bool
    snapshot: str
    """The newest one at that moment, from before the change."""
    from_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """A snapshot was taken in which these paths differ from the one before."""

    type: ClassVar[str] = "files_changed"
    paths: tuple[str, ...]
    total: int
    """How many there are; `paths` may hold only the first."""
    snapshot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Event):
    """A model cannot be reached or is busy; the next try follows."""

    type: ClassVar[str] = "waiting"
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened(Event):
    """A conversation was made to fit the model's context (tokens, by estimate)."""

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
    type: ClassVar[str] = "answered"
    text: str
    snapshot: str = ""
    """Of its files at that moment; empty where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voted(Event):
    type: ClassVar[str] = "voted"
    choice: str
    """The agent whose answer it takes for the best; empty where it named nobody that there is."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailed(Event):
    """It is out of this run; the others go on."""

    type: ClassVar[str] = "agent_failed"
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """Something that the user should know."""

    type: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    type: ClassVar[str] = "run_finished"
    run: str
    ended: EndReason
    why: str
    """The same in a sentence."""
    winner: str = ""
    text: str = ""
    snapshot: str = ""
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who voted for whom in the last round."""
    spent: ModelUsage = field(default_factory=ModelUsage)
    seconds: float = 0.0
    rounds: int = 0
    began: float = 0.0
    """Seconds since 1970; of a run that was resumed, when it was first begun."""
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
    return {"type": event.type, **dataclasses.asdict(event)}


def from_json(record: Mapping[str, Any]) -> TeamEvent:
    """The event that `as_json` wrote. Raises ValidationError for one that is of no known type."""
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
