"""The state of a run, built from its events, for the displays.

Its size is bounded: each agent keeps its last items, and each text its end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from toolyard.cli.drive.format import CallSummary, describe_result, one_line, terminal_safe
from toolyard.cli.run import format as run_format
from toolyard.drivers import ToolCall
from toolyard.models.messages import ModelUsage
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

_MAX_ITEMS: Final = 200
_LONGEST_TEXT: Final = 16_000
_MAX_FILES: Final = 500
_MAX_NOTICES: Final = 20
_MAX_OPEN: Final = 100
_NAMED_FILES: Final = 4


class AgentStatus(Enum):
    """What an agent is doing."""

    READY = auto()
    WORKING = auto()
    WAITING = auto()
    ANSWERED = auto()
    VOTED = auto()
    FAILED = auto()


@dataclass(slots=True)
class ModelText:
    """Text or thoughts of a model."""

    text: str
    is_thinking: bool = False

    def add(self, more: str) -> None:
        """Appends text; drops the beginning of a very long one."""
        self.text += more
        if len(self.text) > 2 * _LONGEST_TEXT:
            self.text = self.text[-_LONGEST_TEXT:]


@dataclass(slots=True)
class ShownCall:
    """A tool call, with its result once it has one."""

    call: ToolCall
    began: float
    summary: CallSummary | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Remark:
    """A one-line event."""

    mark: str
    text: str
    style: str = ""


PanelItem: TypeAlias = ModelText | ShownCall | Remark


@dataclass(slots=True)
class AgentProgress:
    """The state of one agent."""

    info: AgentInfo
    state: AgentStatus = AgentStatus.READY
    since: float = 0.0
    choice: str = ""
    waits_until: float = 0.0
    failure: str = ""
    items: deque[PanelItem] = field(default_factory=lambda: deque[PanelItem](maxlen=_MAX_ITEMS))
    calls: dict[str, ShownCall] = field(default_factory=dict[str, ShownCall])
    """Calls without a result."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    turns: int = 0
    files: dict[str, None] = field(default_factory=dict[str, None])
    unnamed_files: int = 0
    snapshot: str = ""
    has_answered: bool = False

    @property
    def files_changed(self) -> int:
        """The number of changed files."""
        return len(self.files) + self.unnamed_files

    def set_state(self, state: AgentStatus, at: float) -> None:
        """Sets the status and when it began."""
        if self.state is not state:
            self.state, self.since = state, at

    def handle_event(self, event: TeamEvent) -> None:
        """Updates the state from an event."""
        match event:
            case TextDelta() | ThinkingDelta():
                self.set_state(AgentStatus.WORKING, event.at)
                self._add_text(event.text, is_thinking=isinstance(event, ThinkingDelta))
            case TextTakenBack():
                self._remove_text()
            case ToolCalled() | ToolReturned():
                self.set_state(AgentStatus.WORKING, event.at)
                self._update_call(event)
            case FileOperated() if (from_code := run_format.describe_code_operation(event)) is not None:
                self._add_remark("✎", from_code, "magenta")
            case FilesChanged():
                self._add_changed_files(event)
            case Used():
                self.usage, self.turns = event.spent, event.turns
            case Waiting():
                self.set_state(AgentStatus.WAITING, event.at)
                self.waits_until = event.at + event.seconds
                self._add_remark("…", f"waiting {event.seconds:.0f} s: {one_line(event.why)}", "yellow")
            case Shortened():
                before, after = run_format.format_tokens(event.before), run_format.format_tokens(event.after)
                self._add_remark("~", f"the conversation was shortened: {before} to {after} tokens", "dim")
            case Notice():
                self._add_remark("!", one_line(event.text), "yellow")
            case AgentStarted():
                self.set_state(AgentStatus.WORKING, event.at)
                self._add_remark("─", f"round {event.round}", "dim")
            case Answered() | Voted() | AgentFailed():
                self._end_round(event)
            case _:
                pass

    def _end_round(self, event: Answered | Voted | AgentFailed) -> None:
        self.calls.clear()
        match event:
            case Answered():
                self.set_state(AgentStatus.ANSWERED, event.at)
                self.has_answered = True
                suffix = f"  snapshot {run_format.short_snapshot(event.snapshot)}" if event.snapshot else ""
                self._add_remark("★", f"answered{suffix}", "green")
            case Voted():
                self.set_state(AgentStatus.VOTED, event.at)
                self.choice = event.choice
                why = f": {one_line(event.why)}" if event.why else ""
                self._add_remark("→", f"{run_format.describe_vote(event.agent, event.choice)}{why}", "green")
            case AgentFailed():
                self.set_state(AgentStatus.FAILED, event.at)
                self.failure = event.why
                self._add_remark("✗", one_line(event.why), "red")
                if event.hint:
                    self._add_remark("→", one_line(event.hint))

    def _add_text(self, text: str, *, is_thinking: bool) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, ModelText) and last.is_thinking is is_thinking:
            last.add(text)
        else:
            self.items.append(ModelText(text, is_thinking))

    def _remove_text(self) -> None:
        """Removes the text since the last call, but keeps transient remarks."""
        transient: list[PanelItem] = []
        while self.items and (isinstance(self.items[-1], ModelText) or self._is_transient(self.items[-1])):
            last = self.items.pop()
            if not isinstance(last, ModelText):
                transient.append(last)
        self.items.extend(reversed(transient))

    @staticmethod
    def _is_transient(item: PanelItem) -> bool:
        return isinstance(item, Remark) and item.mark in "…!~"

    def _update_call(self, event: ToolCalled | ToolReturned) -> None:
        if isinstance(event, ToolCalled):
            arguments = {name: _cap_text(value) for name, value in event.arguments.items()}
            call = ShownCall(ToolCall(event.call, run_format.short_name(event.tool), arguments), event.at)
            if len(self.calls) < _MAX_OPEN:
                self.calls[event.call] = call
            self.items.append(call)
            return
        open_call = self.calls.pop(event.call, None)
        if open_call is None:
            open_call = ShownCall(ToolCall(event.call, run_format.short_name(event.tool)), event.at)
            self.items.append(open_call)
        open_call.summary = describe_result(open_call.call, event.text, ok=event.ok, exit_code=event.exit_code)
        open_call.seconds = event.seconds or max(event.at - open_call.began, 0.0)

    def _add_changed_files(self, event: FilesChanged) -> None:
        for path in event.paths:
            if path not in self.files and len(self.files) < _MAX_FILES:
                self.files[path] = None
        self.unnamed_files = max(self.unnamed_files, event.total - len(event.paths))
        self.snapshot = event.snapshot
        named = run_format.format_files(event.paths, event.total, _NAMED_FILES)
        self._add_remark("±", f"{named}  snapshot {run_format.short_snapshot(event.snapshot)}", "magenta")

    def _add_remark(self, mark: str, text: str, style: str = "") -> None:
        self.items.append(Remark(mark, text, style))


def _cap_text(value: object) -> object:
    """Truncates a long argument: only its beginning is shown, and a whole file would stay in memory."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else value


@dataclass(slots=True)
class TeamProgress:
    """The state of a run."""

    run: str = ""
    task: str = ""
    folder: str = ""
    began: float = 0.0
    round: int = 0
    is_resumed: bool = False
    is_stopping: bool = False
    limits: dict[str, float] = field(default_factory=dict[str, float])
    agents: dict[str, AgentProgress] = field(default_factory=dict[str, AgentProgress])
    notices: deque[str] = field(default_factory=lambda: deque[str](maxlen=_MAX_NOTICES))
    finished: RunFinished | None = None

    @property
    def usage(self) -> ModelUsage:
        """The usage of all agents."""
        return sum((agent.usage for agent in self.agents.values()), ModelUsage())

    def handle_event(self, event: TeamEvent) -> None:
        """Updates the state from an event."""
        match event:
            case RunStarted():
                self.run, self.task, self.folder = event.run, event.task, event.folder
                self.began, self.limits, self.is_resumed = event.at, dict(event.limits), event.resumed
                self.agents = {info.id: AgentProgress(info, since=event.at) for info in event.agents}
                for agent, paths in event.changed.items():
                    if agent in self.agents:
                        self.agents[agent].files |= dict.fromkeys(map(terminal_safe, paths))
            case RoundStarted():
                self.round = event.round
            case RunFinished():
                self.finished = event
            case Notice() if not event.agent:
                self.notices.append(terminal_safe(event.text).strip())
            case _ if event.agent:
                self.agents.setdefault(event.agent, AgentProgress(AgentInfo(event.agent, ""))).handle_event(event)
            case _:
                pass
