"""Displays of a run without a live screen: lines for pipes and logs (`simple`), JSON (`json`), the answer only
(`silent`).

Nothing is redrawn: a model's text is printed when its turn is complete.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from rich.text import Text

from toolyard.cli.drive import rows
from toolyard.cli.drive.format import format_duration, one_line, terminal_safe
from toolyard.cli.run import format as run_format
from toolyard.cli.run import summary
from toolyard.cli.run.state import ShownCall, TeamProgress
from toolyard.cli.run.streams import OutputStream, OutputStreams
from toolyard.snapshots.service.format import pluralize
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
"""Width of a line about a call."""
_LONGEST_TURN: Final = 64_000
"""Maximum characters of a turn that are buffered; the beginning of a longer one is printed earlier."""
_LONGEST_NAME: Final = 20
_NAMED_FILES: Final = 12
_INDENT: Final = 2
"""Columns of indent that `drive` puts before a call, removed here."""
_RUN_LABEL: Final = "run"
_COLOURS: Final = ("cyan", "magenta", "blue", "green", "yellow", "bright_cyan", "bright_magenta", "bright_blue")
_WITHIN_TURN: Final = (FileOperated, TextTakenBack, Waiting, Shortened, Notice)


class SimpleDisplay:
    """Prints lines."""

    def __init__(
        self,
        outlets: OutputStreams,
        *,
        resume: Callable[[RunFinished], str] = summary.resume_command,
        has_report: bool = True,
    ) -> None:
        self._team = TeamProgress()
        self._outlets, self._resume, self._has_report = outlets, resume, has_report
        self._turns: dict[str, _TurnText] = {}
        self._widest = len(_RUN_LABEL)

    def handle_event(self, event: TeamEvent) -> None:
        if isinstance(event, ThinkingDelta):
            return
        if isinstance(event, TextDelta):
            self._add_text(event)
            return
        if not isinstance(event, _WITHIN_TURN):
            self._end_turns(event)
        open_call = self._open_call(event)
        self._team.handle_event(event)
        if isinstance(event, RunFinished):
            self._print_summary(event)
            return
        for line in self._event_lines(event, open_call):
            self._print_line(event.agent, line)

    def show_stopping(self) -> None:
        self._print_line("", Text("stopping; finished work is kept"))

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...

    def _open_call(self, event: TeamEvent) -> ShownCall | None:
        """Returns the call that a result belongs to."""
        agent = self._team.agents.get(event.agent)
        return agent.calls.get(event.call) if agent and isinstance(event, ToolReturned) else None

    def _event_lines(self, event: TeamEvent, open_call: ShownCall | None) -> Iterator[Text]:
        match event:
            case RunStarted():
                self._widest = min(
                    max(map(len, (_RUN_LABEL, *map(run_format.short_name, self._team.agents)))), _LONGEST_NAME
                )
                yield from _start_lines(event)
            case RoundStarted():
                yield Text(f"round {event.round}", "bold")
            case AgentStarted() | ToolCalled():
                pass  # printed as one line when it has finished
            case ToolReturned() if open_call is not None:
                yield from self._result_lines(event, open_call)
            case TextTakenBack():
                self._turns.pop(event.agent, None)
            case FileOperated() if (from_code := run_format.describe_code_operation(event)) is not None:
                yield Text(f"✎ {from_code}")
            case FilesChanged():
                named_files = run_format.format_files(event.paths, event.total, _NAMED_FILES)
                yield Text(f"± {named_files}  snapshot {run_format.short_snapshot(event.snapshot)}")
            case Answered():
                yield from self._answer_lines(event)
            case Waiting() | Shortened() | Notice() | Voted() | AgentFailed():
                yield from _remark_lines(event)
            case _:
                pass

    def _result_lines(self, event: ToolReturned, open_call: ShownCall) -> Iterator[Text]:
        if open_call.summary is not None:
            workspace = self._team.agents[event.agent].info.workspace
            for line in rows.finished_call_lines(
                open_call.call, workspace, open_call.summary, open_call.seconds, _WIDTH
            ):
                yield line[_INDENT:]

    def _answer_lines(self, event: Answered) -> Iterator[Text]:
        suffix = f"  snapshot {run_format.short_snapshot(event.snapshot)}" if event.snapshot else ""
        turn = self._turns.get(event.agent)
        if turn is None or turn.last != event.text.strip():
            yield from _quoted_lines(event.text)
        yield Text(f"★ answered{suffix}", "green")

    def _add_text(self, event: TextDelta) -> None:
        turn = self._turns.setdefault(event.agent, _TurnText())
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
            for line in _quoted_lines(turn.last):
                self._print_line(agent, line)

    def _print_line(self, agent: str, line: Text) -> None:
        name = run_format.short_name(agent) if agent else _RUN_LABEL
        colour = "bold" if not agent else _COLOURS[[*self._team.agents, agent].index(agent) % len(_COLOURS)]
        self._outlets.progress.print_line(Text.assemble((f"{name:<{self._widest}}", colour), "  ", line))

    def _print_summary(self, finished: RunFinished) -> None:
        out, is_split = self._outlets.progress, self._outlets.is_split
        out.print_line(Text())
        for line in summary.verdict_lines(finished):
            out.print_line(line)
        if finished.has_answer and not is_split:
            out.print_line(Text())
            out.print_line(summary.answer_heading(finished))
            out.print_line(Text())
            for line in terminal_safe(finished.text).strip("\n").split("\n"):
                out.print_line(Text(line))
            out.print_line(Text())
        for line in summary.detail_lines(self._team, finished, self._resume(finished), has_report=self._has_report):
            out.print_line(line)
        if finished.has_answer and is_split:
            self._outlets.write_answer(finished.text)


class SilentDisplay:
    """Prints only the answer, or the reason why there is none."""

    def __init__(self, outlets: OutputStreams, resume: Callable[[RunFinished], str] = summary.resume_command) -> None:
        self._outlets, self._resume = outlets, resume

    def handle_event(self, event: TeamEvent) -> None:
        if not isinstance(event, RunFinished):
            return
        if event.has_answer:
            self._outlets.write_answer(event.text)
        else:
            self._outlets.errors.print_line(Text(one_line(event.why)))
            if resume := self._resume(event):
                self._outlets.errors.print_line(Text(terminal_safe(resume)))

    def show_stopping(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


class JsonDisplay:
    """Prints one JSON event per line."""

    def __init__(self, outlet: OutputStream) -> None:
        self._outlet = outlet

    def handle_event(self, event: TeamEvent) -> None:
        self._outlet.write(f"{json_line(event)}\n")

    def show_stopping(self) -> None: ...

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None: ...


@dataclass(slots=True)
class _TurnText:
    """The text of an agent's unfinished turn, and of the turn before."""

    pieces: list[str] = field(default_factory=list[str])
    length: int = 0
    last: str = ""


def _start_lines(event: RunStarted) -> Iterator[Text]:
    verb = "continues" if event.resumed else "starts"
    yield Text(f"{one_line(event.run)} {verb}: {one_line(event.task)}", "bold")
    for info in event.agents:
        about = " · ".join(filter(None, (info.backend, info.model, info.workspace)))
        yield Text(f"{run_format.short_name(info.id)}: {terminal_safe(about).replace(chr(10), ' ')}")
    if event.limits:
        yield Text(f"at most {', '.join(_format_limit(name, value) for name, value in event.limits.items())}")


def _format_limit(name: str, value: float) -> str:
    match name:
        case "seconds":
            return format_duration(value)
        case "cost":
            return run_format.format_cost(value)
        case "rounds" | "tokens":
            return pluralize(int(value), name.removesuffix("s"))
        case _:
            return f"{value:g} {terminal_safe(name)}"


def _remark_lines(event: Waiting | Shortened | Notice | Voted | AgentFailed) -> Iterator[Text]:
    match event:
        case Waiting():
            yield Text(f"… waiting {event.seconds:.0f} s: {one_line(event.why)}", "yellow")
        case Shortened():
            before, after = run_format.format_tokens(event.before), run_format.format_tokens(event.after)
            yield Text(f"~ the conversation was shortened: {before} to {after} tokens", "dim")
        case Notice():
            yield from (Text(f"! {line}", "yellow") for line in terminal_safe(event.text).strip().split("\n"))
        case Voted():
            why = f": {one_line(event.why)}" if event.why else ""
            yield Text(f"→ {run_format.describe_vote(event.agent, event.choice)}{why}", "green")
        case AgentFailed():
            yield Text(f"✗ failed: {one_line(event.why)}", "red")
            if event.hint:
                yield Text(f"→ {one_line(event.hint)}")


def _quoted_lines(text: str) -> Iterator[Text]:
    for line in terminal_safe(text).strip("\n").split("\n"):
        yield Text.assemble(("| ", "dim"), line)
