"""Where a run stands, followed from its events, as a screen shows it.

However long a run is, this stays small: of each agent the last things are kept, of each text its end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from toolyard.cli.drive.format import CameOf, came_of, clean, one_line
from toolyard.cli.run import format as words
from toolyard.drivers import ToolCall
from toolyard.models.messages import Spent
from toolyard.team.events import (
    AgentFailed,
    AgentInfo,
    AgentStarted,
    Answered,
    FileOperated,
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

_MOST_ITEMS: Final = 200
_LONGEST_TEXT: Final = 16_000
_MOST_FILES: Final = 500
_MOST_NOTICES: Final = 20
_MOST_OPEN: Final = 100
_NAMED_FILES: Final = 4


class State(Enum):
    READY = auto()
    WORKING = auto()
    WAITING = auto()
    ANSWERED = auto()
    VOTED = auto()
    FAILED = auto()


@dataclass(slots=True)
class Words:
    """What a model says or thinks."""

    text: str
    is_thinking: bool = False

    def add(self, more: str) -> None:
        self.text += more
        if len(self.text) > 2 * _LONGEST_TEXT:
            self.text = self.text[-_LONGEST_TEXT:]


@dataclass(slots=True)
class Call:
    call: ToolCall
    began: float
    came: CameOf | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that happened, in a line."""

    mark: str
    text: str
    style: str = ""


Item: TypeAlias = Words | Call | Remark


@dataclass(slots=True)
class Agent:
    info: AgentInfo
    state: State = State.READY
    since: float = 0.0
    choice: str = ""
    waits_until: float = 0.0
    failure: str = ""
    items: deque[Item] = field(default_factory=lambda: deque[Item](maxlen=_MOST_ITEMS))
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    """Those without a result."""
    spent: Spent = field(default_factory=Spent)
    turns: int = 0
    files: dict[str, None] = field(default_factory=dict[str, None])
    unnamed_files: int = 0
    snapshot: str = ""
    has_answered: bool = False

    @property
    def files_changed(self) -> int:
        return len(self.files) + self.unnamed_files

    def turn_to(self, state: State, at: float) -> None:
        if self.state is not state:
            self.state, self.since = state, at

    def hear(self, event: TeamEvent) -> None:
        match event:
            case TextDelta() | ThinkingDelta():
                self.turn_to(State.WORKING, event.at)
                self._said(event.text, is_thinking=isinstance(event, ThinkingDelta))
            case TextTakenBack():
                self._take_back()
            case ToolCalled() | ToolReturned():
                self.turn_to(State.WORKING, event.at)
                self._used_tool(event)
            case FileOperated() if (from_code := words.from_code(event)) is not None:
                self._remark("✎", from_code, "magenta")
            case FilesChanged():
                self._changed(event)
            case Used():
                self.spent, self.turns = event.spent, event.turns
            case Waiting():
                self.turn_to(State.WAITING, event.at)
                self.waits_until = event.at + event.seconds
                self._remark("…", f"waiting {event.seconds:.0f} s: {one_line(event.why)}", "yellow")
            case Shortened():
                before, after = words.tokens(event.before), words.tokens(event.after)
                self._remark("~", f"the conversation was shortened: {before} to {after} tokens", "dim")
            case Notice():
                self._remark("!", one_line(event.text), "yellow")
            case AgentStarted():
                self.turn_to(State.WORKING, event.at)
                self._remark("─", f"round {event.round}", "dim")
            case Answered() | Voted() | AgentFailed():
                self._ended(event)
            case _:
                pass

    def _ended(self, event: Answered | Voted | AgentFailed) -> None:
        self.calls.clear()
        match event:
            case Answered():
                self.turn_to(State.ANSWERED, event.at)
                self.has_answered = True
                kept = f"  snapshot {words.snapshot(event.snapshot)}" if event.snapshot else ""
                self._remark("★", f"answered{kept}", "green")
            case Voted():
                self.turn_to(State.VOTED, event.at)
                self.choice = event.choice
                why = f": {one_line(event.why)}" if event.why else ""
                self._remark("→", f"{words.choice(event.agent, event.choice)}{why}", "green")
            case AgentFailed():
                self.turn_to(State.FAILED, event.at)
                self.failure = event.why
                self._remark("✗", one_line(event.why), "red")
                if event.hint:
                    self._remark("→", one_line(event.hint))

    def _said(self, text: str, *, is_thinking: bool) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, Words) and last.is_thinking is is_thinking:
            last.add(text)
        else:
            self.items.append(Words(text, is_thinking))

    def _take_back(self) -> None:
        """What was said since the last call or the like."""
        kept: list[Item] = []
        while self.items and (isinstance(self.items[-1], Words) or self._is_passing(self.items[-1])):
            last = self.items.pop()
            if not isinstance(last, Words):
                kept.append(last)
        self.items.extend(reversed(kept))

    @staticmethod
    def _is_passing(item: Item) -> bool:
        return isinstance(item, Remark) and item.mark in "…!~"

    def _used_tool(self, event: ToolCalled | ToolReturned) -> None:
        if isinstance(event, ToolCalled):
            arguments = {name: _short(value) for name, value in event.arguments.items()}
            call = Call(ToolCall(event.call, words.named(event.tool), arguments), event.at)
            if len(self.calls) < _MOST_OPEN:
                self.calls[event.call] = call
            self.items.append(call)
            return
        opened = self.calls.pop(event.call, None)
        if opened is None:
            opened = Call(ToolCall(event.call, words.named(event.tool)), event.at)
            self.items.append(opened)
        opened.came = came_of(opened.call, event.text, ok=event.ok, exit_code=event.exit_code)
        opened.seconds = event.seconds or max(event.at - opened.began, 0.0)

    def _changed(self, event: FilesChanged) -> None:
        for path in event.paths:
            if path not in self.files and len(self.files) < _MOST_FILES:
                self.files[path] = None
        self.unnamed_files = max(self.unnamed_files, event.total - len(event.paths))
        self.snapshot = event.snapshot
        named = words.files(event.paths, event.total, _NAMED_FILES)
        self._remark("±", f"{named}  snapshot {words.snapshot(event.snapshot)}", "magenta")

    def _remark(self, mark: str, text: str, style: str = "") -> None:
        self.items.append(Remark(mark, text, style))


def _short(value: object) -> object:
    """What one sees of an argument is its beginning; a whole file in it would be kept for long."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value


@dataclass(slots=True)
class Team:
    """A run as far as it is known."""

    run: str = ""
    task: str = ""
    folder: str = ""
    began: float = 0.0
    round: int = 0
    is_resumed: bool = False
    is_stopping: bool = False
    limits: dict[str, float] = field(default_factory=dict[str, float])
    agents: dict[str, Agent] = field(default_factory=dict[str, Agent])
    notices: deque[str] = field(default_factory=lambda: deque[str](maxlen=_MOST_NOTICES))
    finished: RunFinished | None = None

    @property
    def spent(self) -> Spent:
        return sum((agent.spent for agent in self.agents.values()), Spent())

    def hear(self, event: TeamEvent) -> None:
        match event:
            case RunStarted():
                self.run, self.task, self.folder = event.run, event.task, event.folder
                self.began, self.limits, self.is_resumed = event.at, dict(event.limits), event.resumed
                self.agents = {info.id: Agent(info, since=event.at) for info in event.agents}
                for agent, paths in event.changed.items():
                    if agent in self.agents:
                        self.agents[agent].files |= dict.fromkeys(map(clean, paths))
            case RoundStarted():
                self.round = event.round
            case RunFinished():
                self.finished = event
            case Notice() if not event.agent:
                self.notices.append(clean(event.text).strip())
            case _ if event.agent:
                self.agents.setdefault(event.agent, Agent(AgentInfo(event.agent, ""))).hear(event)
            case _:
                pass
