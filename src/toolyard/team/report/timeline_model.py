"""A run as a story: its events put together into what each agent said and did in each round.

However much was logged, a story stays of a size that can be read: long texts are cut where they are taken over, and
of very many steps the last are counted only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from toolyard.models.messages import Spent
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

_MOST_STEPS: Final = 1000
"""Of one agent in one round."""
_LONGEST_TEXT: Final = 40_000
_MOST_PATHS: Final = 500


@dataclass(slots=True)
class Said:
    at: float
    text: str
    is_thinking: bool = False


@dataclass(slots=True)
class Made:
    """A call, and what came of it."""

    at: float
    tool: str
    arguments: Mapping[str, Any]
    ok: bool | None = None
    """None where it has no result."""
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Changed:
    at: float
    paths: tuple[str, ...]
    total: int
    snapshot: str


@dataclass(frozen=True, slots=True)
class Noted:
    at: float
    text: str
    seconds: float = 0.0
    """For how long it waited; 0 for any other note."""


Step: TypeAlias = Said | Made | Changed | Noted


@dataclass(slots=True)
class Part:
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
    _open: dict[str, Made] = field(default_factory=dict[str, Made])

    @property
    def has_said_answer(self) -> bool:
        """Whether its answer is what it said last."""
        last = self.steps[-1] if self.steps else None
        return isinstance(last, Said) and self.answer is not None and last.text.strip() == self.answer.text.strip()

    def hear(self, event: TeamEvent) -> None:
        self.ended = max(self.ended, event.at)
        match event:
            case TextDelta() | ThinkingDelta():
                self._said(event.text, event.at, is_thinking=isinstance(event, ThinkingDelta))
            case TextTakenBack():
                while self.steps and isinstance(self.steps[-1], Said):
                    self.steps.pop()
            case ToolCalled() | ToolReturned():
                self._used_tool(event)
            case FilesChanged():
                self._add(Changed(event.at, event.paths[:_MOST_PATHS], event.total, event.snapshot))
            case Waiting() | Shortened() | Notice():
                self._add(_noted(event))
            case Answered():
                self.answer = event
            case Voted():
                self.vote = event
            case AgentFailed():
                self.failure = event
            case _:
                pass

    def _add(self, step: Step) -> bool:
        if len(self.steps) >= _MOST_STEPS:
            self.left_out += 1
            return False
        self.steps.append(step)
        return True

    def _said(self, text: str, at: float, *, is_thinking: bool) -> None:
        last = self.steps[-1] if self.steps else None
        if isinstance(last, Said) and last.is_thinking is is_thinking:
            last.text = cut(last.text + text, _LONGEST_TEXT)
        else:
            self._add(Said(at, cut(text, _LONGEST_TEXT), is_thinking))

    def _used_tool(self, event: ToolCalled | ToolReturned) -> None:
        if isinstance(event, ToolCalled):
            made = Made(event.at, event.tool, event.arguments)
            if self._add(made):
                self._open[event.call] = made
            return
        made = self._open.pop(event.call, None)
        if made is not None:
            made.ok, made.text = event.ok, cut(event.text, _LONGEST_TEXT)
            made.seconds = event.seconds or max(event.at - made.at, 0.0)


@dataclass(slots=True)
class Story:
    run: str = ""
    task: str = ""
    began: float = 0.0
    ended: float = 0.0
    resumed: int = 0
    """How often it was gone on with."""
    agents: dict[str, AgentInfo] = field(default_factory=dict[str, AgentInfo])
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    rounds: dict[int, dict[str, Part]] = field(default_factory=dict[int, dict[str, Part]])
    used: dict[str, Used] = field(default_factory=dict[str, Used])
    notices: list[Notice] = field(default_factory=list[Notice])
    finished: RunFinished | None = None

    @property
    def spent(self) -> Spent:
        if self.finished is not None and self.finished.spent.total:
            return self.finished.spent
        return sum((used.spent for used in self.used.values()), Spent())

    @property
    def seconds(self) -> float:
        return self.finished.seconds if self.finished and self.finished.seconds else max(self.ended - self.began, 0.0)

    def parts_of(self, agent: str) -> list[Part]:
        return [parts[agent] for parts in self.rounds.values() if agent in parts]

    def files_of(self, agent: str) -> list[str]:
        """Paths that it changed, in the order in which it first did."""
        steps = (step for part in self.parts_of(agent) for step in part.steps)
        return [*dict.fromkeys(path for step in steps if isinstance(step, Changed) for path in step.paths)]

    def calls_of(self, agent: str) -> list[Made]:
        return [step for part in self.parts_of(agent) for step in part.steps if isinstance(step, Made)]


def story_of(events: Iterable[TeamEvent]) -> Story:
    story = Story()
    for event in events:
        story.began = story.began or event.at
        story.ended = max(story.ended, event.at)
        match event:
            case RunStarted():
                story.run, story.task, story.limits = event.run, event.task, event.limits
                story.agents.update({info.id: info for info in event.agents})
                story.resumed += event.resumed
                story.finished = None
            case RunFinished():
                story.finished = event
            case Used():
                story.used[event.agent] = event
            case RoundStarted():
                story.rounds.setdefault(event.round, {})
            case Notice() if not event.agent:
                story.notices.append(event)
            case _ if event.agent:
                _part(story, event).hear(event)
            case _:
                pass
    return story


def cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… (cut)"


def _noted(event: Waiting | Shortened | Notice) -> Noted:
    match event:
        case Waiting():
            return Noted(event.at, f"Waited {event.seconds:.0f} s: {event.why}", event.seconds)
        case Shortened():
            told = f"The conversation was shortened from {event.before:,} to {event.after:,} tokens."
            return Noted(event.at, told)
        case Notice():
            return Noted(event.at, event.text)


def _part(story: Story, event: TeamEvent) -> Part:
    story.agents.setdefault(event.agent, AgentInfo(event.agent, ""))
    parts = story.rounds.setdefault(event.round, {})
    if event.agent not in parts:
        parts[event.agent] = Part(event.agent, event.round, event.at, event.at)
    elif isinstance(event, AgentStarted):
        # A round that was broken off and begun again: the time in between was no work.
        parts[event.agent].began = min(parts[event.agent].began, event.at)
    return parts[event.agent]
