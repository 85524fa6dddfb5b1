"""What is said of a run when it is over: who won, what it came to, and what can be done next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from toolyard.cli.drive.format import format_duration, one_line, terminal_safe
from toolyard.cli.run import format as words
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
    EndReason.ROUNDS: (*_LIMIT, "Rounds are over"),
    EndReason.TIME: (*_LIMIT, "Time is over"),
    EndReason.TOKENS: (*_LIMIT, "Tokens are spent"),
    EndReason.COST: (*_LIMIT, "Money is spent"),
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
    """Why it is over, and what it took."""
    mark, colour, word = _ENDED[finished.ended]
    yield Text.assemble((f"{mark} {word}", f"bold {colour}"), "  ", one_line(finished.why))
    took = [pluralize(finished.rounds, "round")] if finished.rounds else []
    told = [
        *took,
        *([format_duration(finished.seconds)] if finished.seconds else []),
        *words.format_usage(finished.spent),
    ]
    if told:
        yield Text("  " + " · ".join(told), "dim")


def answer_heading(finished: RunFinished) -> Text:
    return Text.assemble((f"{words.short_name(finished.winner)}'s answer", "bold"))


def detail_lines(team: TeamProgress, finished: RunFinished, resume: str, *, has_report: bool) -> Iterator[Text]:
    """Who did what, the files, and where to go on."""
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
    """The command that goes on with a run, where one can; after a limit, with a higher one."""
    if finished.ended in {EndReason.ANSWERED, EndReason.CONSENSUS}:
        return ""
    where = f" --state {shlex.quote(state)}" if state else ""
    return f"toolyard run --resume {finished.run}{where}{_HIGHER_LIMIT_OPTIONS.get(finished.ended, '')}"


def without_wrapping(line: Text) -> Text:
    """However long it is: somebody copies it."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _agent_lines(team: TeamProgress, finished: RunFinished) -> Iterator[Text]:
    if not team.agents:
        return
    widest = min(max(len(words.short_name(name)) for name in team.agents), _LONGEST_NAME)
    for name, agent in team.agents.items():
        mark, style = _agent_mark(agent, finished)
        told = [part for part in (_agent_outcome(agent, finished), *words.format_usage(agent.usage)) if part]
        line = Text.assemble("  ", (mark, style), " ", (f"{words.short_name(name):<{widest}}", "bold"))
        yield line.append("  " + " · ".join(told), "" if name == finished.winner else "dim")


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
        parts.append(words.describe_vote(name, finished.votes[name]))
    if agent.files_changed:
        parts.append(f"{pluralize(agent.files_changed, 'file')} changed")
    return ", ".join(parts) or ("answered" if agent.has_answered else "no answer")


def _winner_text(votes: int, finished: RunFinished) -> str:
    """Nobody has won what is not over, or what nobody voted on."""
    if finished.ended in {EndReason.CONSENSUS, EndReason.ROUNDS} and votes:
        return f"won with {pluralize(votes, 'vote')}"
    return "answered" if finished.ended is EndReason.ANSWERED else "best so far"


def _file_lines(winner: AgentProgress, snapshot: str) -> Iterator[Text]:
    kept = words.short_snapshot(snapshot or winner.snapshot)
    yield Text.assemble(("  Files", "dim"), f"   {pluralize(winner.files_changed, 'file')}, snapshot {kept}")
    if winner.info.workspace:
        yield without_wrapping(Text.assemble(("  in      ", "dim"), terminal_safe(winner.info.workspace)))
    for path in [*winner.files][:_MAX_FILES]:
        yield without_wrapping(Text.assemble("    ", ("±", "magenta"), " ", words.short_name(path)))
    if winner.files_changed > _MAX_FILES:
        yield Text(f"    … and {winner.files_changed - _MAX_FILES:,} more", "dim")
