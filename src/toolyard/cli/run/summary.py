"""The lines printed when a run has ended: the winner, the usage, and what to do next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from toolyard.cli.drive.format import format_duration, one_line, terminal_safe
from toolyard.cli.run import format as run_format
from toolyard.cli.run.state import AgentProgress, AgentStatus, TeamProgress
from toolyard.snapshots.service.format import pluralize
from toolyard.team.events import EndReason, RunFinished

REPORT_NAME: Final = "report.html"
_MAX_FILES: Final = 20
_LONGEST_NAME: Final = 24
_GOOD, _LIMIT, _BAD = ("✓", "green"), ("!", "yellow"), ("✗", "red")
_ENDED: Final[dict[EndReason, tuple[str, str, str]]] = {
    EndReason.ANSWERED: (*_GOOD, "Answered"),
    EndReason.CONSENSUS: (*_GOOD, "Consensus"),
    EndReason.ROUNDS: (*_LIMIT, "Round limit reached"),
    EndReason.TIME: (*_LIMIT, "Time limit reached"),
    EndReason.TOKENS: (*_LIMIT, "Token limit reached"),
    EndReason.COST: (*_LIMIT, "Cost limit reached"),
    EndReason.INTERRUPTED: (*_LIMIT, "Interrupted"),
    EndReason.FAILED: (*_BAD, "Failed"),
}

_HIGHER_LIMIT_OPTIONS: Final = {
    EndReason.ROUNDS: " --rounds N",
    EndReason.TIME: " --timeout SECONDS",
    EndReason.TOKENS: " --max-tokens N",
    EndReason.COST: " --max-cost USD",
}


def verdict_lines(finished: RunFinished) -> Iterator[Text]:
    """Yields why the run ended, and what it used."""
    mark, colour, word = _ENDED[finished.ended]
    yield Text.assemble((f"{mark} {word}", f"bold {colour}"), "  ", one_line(finished.why))
    took = [pluralize(finished.rounds, "round")] if finished.rounds else []
    parts = [
        *took,
        *([format_duration(finished.seconds)] if finished.seconds else []),
        *run_format.format_usage(finished.spent),
    ]
    if parts:
        yield Text("  " + " · ".join(parts), "dim")


def answer_heading(finished: RunFinished) -> Text:
    """Returns the heading of the answer."""
    return Text.assemble((f"{run_format.short_name(finished.winner)}'s answer", "bold"))


def detail_lines(team: TeamProgress, finished: RunFinished, resume: str, *, has_report: bool) -> Iterator[Text]:
    """Yields the result of each agent, the files, the report and the command to resume."""
    yield from _agent_lines(team, finished)
    winner = team.agents.get(finished.winner)
    if winner is not None and winner.files_changed:
        yield from _file_lines(winner, finished.snapshot)
    for notice in team.notices:
        yield Text.assemble(("  ! ", "yellow"), (one_line(notice), "yellow"))
    folder = finished.folder or team.folder
    if has_report and folder:
        yield without_wrapping(Text.assemble(("  Report  ", "dim"), terminal_safe(os.path.join(folder, REPORT_NAME))))
    if resume:
        yield without_wrapping(Text.assemble(("  Resume  ", "dim"), terminal_safe(resume)))


def resume_command(finished: RunFinished, state: str | None = None) -> str:
    """Returns the command that continues a run, with a higher limit if one was reached; empty if it is complete."""
    if finished.ended in {EndReason.ANSWERED, EndReason.CONSENSUS}:
        return ""
    where = f" --state {shlex.quote(state)}" if state else ""
    return f"toolyard run --resume {finished.run}{where}{_HIGHER_LIMIT_OPTIONS.get(finished.ended, '')}"


def without_wrapping(line: Text) -> Text:
    """Returns the line unwrapped, so that it can be copied."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _agent_lines(team: TeamProgress, finished: RunFinished) -> Iterator[Text]:
    if not team.agents:
        return
    widest = min(max(len(run_format.short_name(name)) for name in team.agents), _LONGEST_NAME)
    for name, agent in team.agents.items():
        mark, style = _agent_mark(agent, finished)
        parts = [part for part in (_agent_outcome(agent, finished), *run_format.format_usage(agent.usage)) if part]
        line = Text.assemble("  ", (mark, style), " ", (f"{run_format.short_name(name):<{widest}}", "bold"))
        yield line.append("  " + " · ".join(parts), "" if name == finished.winner else "dim")


def _agent_mark(agent: AgentProgress, finished: RunFinished) -> tuple[str, str]:
    if agent.info.id == finished.winner:
        return "★", "green"
    return ("✗", "red") if agent.state is AgentStatus.FAILED else ("·", "dim")


def _agent_outcome(agent: AgentProgress, finished: RunFinished) -> str:
    name = agent.info.id
    if agent.state is AgentStatus.FAILED:
        return f"failed: {one_line(agent.failure)}"
    votes = sum(choice == name for choice in finished.votes.values())
    parts = [_winner_text(votes, finished)] if name == finished.winner else []
    if name in finished.votes:
        parts.append(run_format.describe_vote(name, finished.votes[name]))
    if agent.files_changed:
        parts.append(f"{pluralize(agent.files_changed, 'file')} changed")
    return ", ".join(parts) or ("answered" if agent.has_answered else "no answer")


def _winner_text(votes: int, finished: RunFinished) -> str:
    """Returns the winner's result. An unfinished run, or one without votes, has no winner yet."""
    if finished.ended in {EndReason.CONSENSUS, EndReason.ROUNDS} and votes:
        return f"won with {pluralize(votes, 'vote')}"
    return "answered" if finished.ended is EndReason.ANSWERED else "best so far"


def _file_lines(winner: AgentProgress, snapshot: str) -> Iterator[Text]:
    snapshot_name = run_format.short_snapshot(snapshot or winner.snapshot)
    yield Text.assemble(("  Files", "dim"), f"   {pluralize(winner.files_changed, 'file')}, snapshot {snapshot_name}")
    if winner.info.workspace:
        yield without_wrapping(Text.assemble(("  in      ", "dim"), terminal_safe(winner.info.workspace)))
    for path in [*winner.files][:_MAX_FILES]:
        yield without_wrapping(Text.assemble("    ", ("±", "magenta"), " ", run_format.short_name(path)))
    if winner.files_changed > _MAX_FILES:
        yield Text(f"    … and {winner.files_changed - _MAX_FILES:,} more", "dim")
