"""Builds the timeline of a run from its events: what each agent said and did in each round.

The timeline stays readable for any log: long texts are cut, and steps beyond the maximum are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolyard.models.messages import ModelUsage
from toolyard.team.events import (
    AgentFailed,
    AgentInfo,
    AgentStarted,
    Answered,
    FilesChanged,
    Notice,
    RoundStarted,
    RunFinished,
    RunStarted,
    Shortened,
    TeamEvent,
    TextDelta,
    TextTakenBack,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
    Used,
    Voted,
    Waiting,
)

_MAX_STEPS: Final = 1000
"""Per agent and round."""
_MAX_TEXT: Final = 40_000
_MAX_PATHS: Final = 500


@dataclass(slots=True)
class TextStep:
    """Text or thinking of the model."""

    at: float
    text: str
    is_thinking: bool = False


@dataclass(slots=True)
class CallStep:
    """A tool call and its result."""

    at: float
    tool: str
    arguments: Mapping[str, Any]
    ok: bool | None = None
    """None while it has no result."""
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """Files that changed in one snapshot."""

    at: float
    paths: tuple[str, ...]
    total: int
    snapshot: str


@dataclass(frozen=True, slots=True)
class NoteStep:
    """A notice about the agent."""

    at: float
    text: str
    seconds: float = 0.0
    """Seconds that it waited; 0 for other notes."""


Step: TypeAlias = TextStep | CallStep | ChangeStep | NoteStep


@dataclass(slots=True)
class AgentRound:
    """What one agent did in one round."""

    agent: str
    round: int
    began: float
    ended: float
    steps: list[Step] = field(default_factory=list[Step])
    left_out: int = 0
    answer: Answered | None = None
    vote: Voted | None = None
    failure: AgentFailed | None = None
    _open_calls: dict[str, CallStep] = field(default_factory=dict[str, CallStep])

    @property
    def ends_with_answer(self) -> bool:
        """Whether its last text is its answer."""
        last = self.steps[-1] if self.steps else None
        return (
            isinstance(last, TextStep) and self.answer is not None and last.text.strip() == self.answer.text.strip()
        )

    def add_event(self, event: TeamEvent) -> None:
        self.ended = max(self.ended, event.at)
        match event:
            case TextDelta() | ThinkingDelta():
                self._add_text(event.text, event.at, is_thinking=isinstance(event, ThinkingDelta))
            case TextTakenBack():
                while self.steps and isinstance(self.steps[-1], TextStep):
                    self.steps.pop()
            case ToolCalled() | ToolReturned():
                self._add_tool_event(event)
            case FilesChanged():
                self._add_step(ChangeStep(event.at, event.paths[:_MAX_PATHS], event.total, event.snapshot))
            case Waiting() | Shortened() | Notice():
                self._add_step(_note_step(event))
            case Answered():
                self.answer = event
            case Voted():
                self.vote = event
            case AgentFailed():
                self.failure = event
            case _:
                pass

    def _add_step(self, step: Step) -> bool:
        if len(self.steps) >= _MAX_STEPS:
            self.left_out += 1
            return False
        self.steps.append(step)
        return True

    def _add_text(self, text: str, at: float, *, is_thinking: bool) -> None:
        last = self.steps[-1] if self.steps else None
        if isinstance(last, TextStep) and last.is_thinking is is_thinking:
            last.text = truncate(last.text + text, _MAX_TEXT)
        else:
            self._add_step(TextStep(at, truncate(text, _MAX_TEXT), is_thinking))

    def _add_tool_event(self, event: ToolCalled | ToolReturned) -> None:
        if isinstance(event, ToolCalled):
            step = CallStep(event.at, event.tool, event.arguments)
            if self._add_step(step):
                self._open_calls[event.call] = step
            return
        step = self._open_calls.pop(event.call, None)
        if step is not None:
            step.ok, step.text = event.ok, truncate(event.text, _MAX_TEXT)
            step.seconds = event.seconds or max(event.at - step.at, 0.0)


@dataclass(slots=True)
class RunTimeline:
    """All that the reports show of a run."""

    run: str = ""
    task: str = ""
    began: float = 0.0
    ended: float = 0.0
    resumed: int = 0
    """How often the run was resumed."""
    agents: dict[str, AgentInfo] = field(default_factory=dict[str, AgentInfo])
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    rounds: dict[int, dict[str, AgentRound]] = field(default_factory=dict[int, dict[str, AgentRound]])
    used: dict[str, Used] = field(default_factory=dict[str, Used])
    notices: list[Notice] = field(default_factory=list[Notice])
    finished: RunFinished | None = None

    @property
    def total_spent(self) -> ModelUsage:
        if self.finished is not None and self.finished.spent.total:
            return self.finished.spent
        return sum((used.spent for used in self.used.values()), ModelUsage())

    @property
    def seconds(self) -> float:
        return self.finished.seconds if self.finished and self.finished.seconds else max(self.ended - self.began, 0.0)

    def agent_rounds(self, agent: str) -> list[AgentRound]:
        return [parts[agent] for parts in self.rounds.values() if agent in parts]

    def files_of(self, agent: str) -> list[str]:
        """Returns the paths that the agent changed, in the order of the first change."""
        steps = (step for part in self.agent_rounds(agent) for step in part.steps)
        return [*dict.fromkeys(path for step in steps if isinstance(step, ChangeStep) for path in step.paths)]

    def calls_of(self, agent: str) -> list[CallStep]:
        return [step for part in self.agent_rounds(agent) for step in part.steps if isinstance(step, CallStep)]


def build_timeline(events: Iterable[TeamEvent]) -> RunTimeline:
    """Builds the timeline from the events of a log."""
    timeline = RunTimeline()
    for event in events:
        timeline.began = timeline.began or event.at
        timeline.ended = max(timeline.ended, event.at)
        match event:
            case RunStarted():
                timeline.run, timeline.task, timeline.limits = event.run, event.task, event.limits
                timeline.agents.update({info.id: info for info in event.agents})
                timeline.resumed += event.resumed
                timeline.finished = None
            case RunFinished():
                timeline.finished = event
            case Used():
                timeline.used[event.agent] = event
            case RoundStarted():
                timeline.rounds.setdefault(event.round, {})
            case Notice() if not event.agent:
                timeline.notices.append(event)
            case _ if event.agent:
                _agent_round(timeline, event).add_event(event)
            case _:
                pass
    return timeline


def truncate(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… (cut)"


def _note_step(event: Waiting | Shortened | Notice) -> NoteStep:
    match event:
        case Waiting():
            return NoteStep(event.at, f"Waited {event.seconds:.0f} s: {event.why}", event.seconds)
        case Shortened():
            text = f"The conversation was shortened from {event.before:,} to {event.after:,} tokens."
            return NoteStep(event.at, text)
        case Notice():
            return NoteStep(event.at, event.text)


def _agent_round(timeline: RunTimeline, event: TeamEvent) -> AgentRound:
    timeline.agents.setdefault(event.agent, AgentInfo(event.agent, ""))
    parts = timeline.rounds.setdefault(event.round, {})
    if event.agent not in parts:
        parts[event.agent] = AgentRound(event.agent, event.round, event.at, event.at)
    elif isinstance(event, AgentStarted):
        # The round was interrupted and restarted: keep its first start.
        parts[event.agent].began = min(parts[event.agent].began, event.at)
    return parts[event.agent]
