"""A run in lines, for pipes and logs (`simple`), for programs (`json`), and hardly at all (`silent`).

Nothing moves and nothing is taken back: what a model says is printed when its turn is whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from toolyard.cli.drive import rows
from toolyard.cli.drive.format import clean, one_line, span
from toolyard.cli.run import format as words
from toolyard.cli.run import summary as ending
from toolyard.cli.run.state import Call, Team
from toolyard.cli.run.streams import Outlet, Outlets
from toolyard.snapshots.service.format import counted
from toolyard.team.events import (
    AgentFailed,
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
    Voted,
    Waiting,
)
from toolyard.team.log import json_line

_WIDTH: Final = 160
"""Of a line about a call."""
_LONGEST_TURN: Final = 64_000
"""Characters of a turn that are kept until it is whole; of a longer one the first are printed before."""
_LONGEST_NAME: Final = 20
_NAMED_FILES: Final = 12
_INDENT: Final = 2
"""Columns that a line about a call begins with elsewhere."""
_OF_RUN: Final = "run"
_COLOURS: Final = ("cyan", "magenta", "blue", "green", "yellow", "bright_cyan", "bright_magenta", "bright_blue")
_WITHIN_TURN: Final = (FileOperated, TextTakenBack, Waiting, Shortened, Notice)


class SimpleDisplay:
    def __init__(
        self,
        outlets: Outlets,
        *,
        resume: Callable[[RunFinished], str] = ending.resuming,
        has_report: bool = True,
    ) -> None:
        self._team = Team()
        self._outlets, self._resume, self._has_report = outlets, resume, has_report
        self._turns: dict[str, _Turn] = {}
        self._widest = len(_OF_RUN)

    def hear(self, event: TeamEvent) -> None:
        if isinstance(event, ThinkingDelta):
            return
        if isinstance(event, TextDelta):
            self._said(event)
            return
        if not isinstance(event, _WITHIN_TURN):
            self._end_turns(event)
        opened = self._opened(event)
        self._team.hear(event)
        if isinstance(event, RunFinished):
            self._sum_up(event)
            return
        for line in self._told(event, opened):
            self._put(event.agent, line)

    def stopping(self) -> None:
        self._put("", Text("stopping; what is done is kept"))

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...

    def _opened(self, event: TeamEvent) -> Call | None:
        """The call that a result belongs to."""
        agent = self._team.agents.get(event.agent)
        return agent.calls.get(event.call) if agent and isinstance(event, ToolReturned) else None

    def _told(self, event: TeamEvent, opened: Call | None) -> Iterator[Text]:
        match event:
            case RunStarted():
                self._widest = min(max(map(len, (_OF_RUN, *map(words.named, self._team.agents)))), _LONGEST_NAME)
                yield from _beginning(event)
            case RoundStarted():
                yield Text(f"round {event.round}", "bold")
            case AgentStarted() | ToolCalled():
                pass  # one line, when it is over
            case ToolReturned() if opened is not None:
                yield from self._returned(event, opened)
            case TextTakenBack():
                self._turns.pop(event.agent, None)
            case FileOperated() if (from_code := words.from_code(event)) is not None:
                yield Text(f"✎ {from_code}")
            case FilesChanged():
                named_files = words.files(event.paths, event.total, _NAMED_FILES)
                yield Text(f"± {named_files}  snapshot {words.snapshot(event.snapshot)}")
            case Answered():
                yield from self._answered(event)
            case Waiting() | Shortened() | Notice() | Voted() | AgentFailed():
                yield from _remarks(event)
            case _:
                pass

    def _returned(self, event: ToolReturned, opened: Call) -> Iterator[Text]:
        if opened.came is not None:
            workspace = self._team.agents[event.agent].info.workspace
            for line in rows.over(opened.call, workspace, opened.came, opened.seconds, _WIDTH):
                yield line[_INDENT:]

    def _answered(self, event: Answered) -> Iterator[Text]:
        kept = f"  snapshot {words.snapshot(event.snapshot)}" if event.snapshot else ""
        turn = self._turns.get(event.agent)
        if turn is None or turn.last != event.text.strip():
            yield from _lines_of(event.text)
        yield Text(f"★ answered{kept}", "green")

    def _said(self, event: TextDelta) -> None:
        turn = self._turns.setdefault(event.agent, _Turn())
        turn.pieces.append(event.text)
        turn.length += len(event.text)
        if turn.length > _LONGEST_TURN:
            self._end_turn(event.agent)

    def _end_turns(self, event: TeamEvent) -> None:
        for agent in [event.agent] if event.agent else [*self._turns]:
            self._end_turn(agent)

    def _end_turn(self, agent: str) -> None:
        turn = self._turns.get(agent)
        if turn is not None and turn.pieces:
            turn.last = "".join(turn.pieces).strip()
            turn.pieces, turn.length = [], 0
            for line in _lines_of(turn.last):
                self._put(agent, line)

    def _put(self, agent: str, line: Text) -> None:
        name = words.named(agent) if agent else _OF_RUN
        colour = "bold" if not agent else _COLOURS[[*self._team.agents, agent].index(agent) % len(_COLOURS)]
        self._outlets.progress.put(Text.assemble((f"{name:<{self._widest}}", colour), "  ", line))

    def _sum_up(self, finished: RunFinished) -> None:
        out, is_split = self._outlets.progress, self._outlets.is_split
        out.put(Text())
        for line in ending.verdict(finished):
            out.put(line)
        if finished.has_answer and not is_split:
            out.put(Text())
            out.put(ending.answer_heading(finished))
            out.put(Text())
            for line in clean(finished.text).strip("\n").split("\n"):
                out.put(Text(line))
            out.put(Text())
        for line in ending.particulars(self._team, finished, self._resume(finished), has_report=self._has_report):
            out.put(line)
        if finished.has_answer and is_split:
            self._outlets.answer(finished.text)


class SilentDisplay:
    """The answer, and where there is none, why."""

    def __init__(self, outlets: Outlets, resume: Callable[[RunFinished], str] = ending.resuming) -> None:
        self._outlets, self._resume = outlets, resume

    def hear(self, event: TeamEvent) -> None:
        if not isinstance(event, RunFinished):
            return
        if event.has_answer:
            self._outlets.answer(event.text)
        else:
            self._outlets.errors.put(Text(one_line(event.why)))
            if resume := self._resume(event):
                self._outlets.errors.put(Text(clean(resume)))

    def stopping(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


class JsonDisplay:
    """One event a line, and nothing else."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def hear(self, event: TeamEvent) -> None:
        self._outlet.write(f"{json_line(event)}\n")

    def stopping(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


@dataclass(slots=True)
class _Turn:
    """What an agent says before its turn is whole, and what it said in the one before."""

    pieces: list[str] = field(default_factory=list[str])
    length: int = 0
    last: str = ""


def _beginning(event: RunStarted) -> Iterator[Text]:
    again = "goes on" if event.resumed else "begins"
    yield Text(f"{one_line(event.run)} {again}: {one_line(event.task)}", "bold")
    for info in event.agents:
        about = " · ".join(filter(None, (info.backend, info.model, info.workspace)))
        yield Text(f"{words.named(info.id)}: {clean(about).replace(chr(10), ' ')}")
    if event.limits:
        yield Text(f"at most {', '.join(_limit(name, value) for name, value in event.limits.items())}")


def _limit(name: str, value: float) -> str:
    match name:
        case "seconds":
            return span(value)
        case "cost":
            return words.money(value)
        case "rounds" | "tokens":
            return counted(int(value), name.removesuffix("s"))
        case _:
            return f"{value:g} {clean(name)}"


def _remarks(event: Waiting | Shortened | Notice | Voted | AgentFailed) -> Iterator[Text]:
    match event:
        case Waiting():
            yield Text(f"… waiting {event.seconds:.0f} s: {one_line(event.why)}", "yellow")
        case Shortened():
            before, after = words.tokens(event.before), words.tokens(event.after)
            yield Text(f"~ the conversation was shortened: {before} to {after} tokens", "dim")
        case Notice():
            yield from (Text(f"! {line}", "yellow") for line in clean(event.text).strip().split("\n"))
        case Voted():
            why = f": {one_line(event.why)}" if event.why else ""
            yield Text(f"→ {words.choice(event.agent, event.choice)}{why}", "green")
        case AgentFailed():
            yield Text(f"✗ failed: {one_line(event.why)}", "red")
            if event.hint:
                yield Text(f"→ {one_line(event.hint)}")


def _lines_of(text: str) -> Iterator[Text]:
    for line in clean(text).strip("\n").split("\n"):
        yield Text.assemble(("| ", "dim"), line)
