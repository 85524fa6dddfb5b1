"""What is said of a run when it is over: who won, what it came to, and what can be done next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Final

from rich.text import Text

from toolyard.cli.drive.format import clean, one_line, span
from toolyard.cli.run import format as words
from toolyard.cli.run.state import Agent, State, Team
from toolyard.snapshots.service.format import counted
from toolyard.team.events import Ended, RunFinished

REPORT_NAME: Final = "report.html"
_MOST_FILES: Final = 20
_LONGEST_NAME: Final = 24
_GOOD, _LIMIT, _BAD = ("✓", "green"), ("!", "yellow"), ("✗", "red")
_ENDED: Final[dict[Ended, tuple[str, str, str]]] = {
    Ended.ANSWERED: (*_GOOD, "Answered"),
    Ended.CONSENSUS: (*_GOOD, "Consensus"),
    Ended.ROUNDS: (*_LIMIT, "Rounds are over"),
    Ended.TIME: (*_LIMIT, "Time is over"),
    Ended.TOKENS: (*_LIMIT, "Tokens are spent"),
    Ended.COST: (*_LIMIT, "Money is spent"),
    Ended.INTERRUPTED: (*_LIMIT, "Interrupted"),
    Ended.FAILED: (*_BAD, "Failed"),
}

_HIGHER: Final = {
    Ended.ROUNDS: " --rounds N",
    Ended.TIME: " --timeout SECONDS",
    Ended.TOKENS: " --max-tokens N",
    Ended.COST: " --max-cost USD",
}


def verdict(finished: RunFinished) -> Iterator[Text]:
    """Why it is over, and what it took."""
    mark, colour, word = _ENDED[finished.ended]
    yield Text.assemble((f"{mark} {word}", f"bold {colour}"), "  ", one_line(finished.why))
    took = [counted(finished.rounds, "round")] if finished.rounds else []
    told = [*took, *([span(finished.seconds)] if finished.seconds else []), *words.spent(finished.spent)]
    if told:
        yield Text("  " + " · ".join(told), "dim")


def answer_heading(finished: RunFinished) -> Text:
    return Text.assemble((f"{words.named(finished.winner)}'s answer", "bold"))


def particulars(team: Team, finished: RunFinished, resume: str, *, has_report: bool) -> Iterator[Text]:
    """Who did what, the files, and where to go on."""
    yield from _agents(team, finished)
    winner = team.agents.get(finished.winner)
    if winner is not None and winner.files_changed:
        yield from _files(winner, finished.snapshot)
    for notice in team.notices:
        yield Text.assemble(("  ! ", "yellow"), (one_line(notice), "yellow"))
    folder = finished.folder or team.folder
    if has_report and folder:
        yield in_one_piece(Text.assemble(("  Report  ", "dim"), clean(os.path.join(folder, REPORT_NAME))))
    if resume:
        yield in_one_piece(Text.assemble(("  Resume  ", "dim"), clean(resume)))


def resuming(finished: RunFinished, state: str | None = None) -> str:
    """The command that goes on with a run, where one can; after a limit, with a higher one."""
    if finished.ended in {Ended.ANSWERED, Ended.CONSENSUS}:
        return ""
    where = f" --state {shlex.quote(state)}" if state else ""
    return f"toolyard run --resume {finished.run}{where}{_HIGHER.get(finished.ended, '')}"


def in_one_piece(line: Text) -> Text:
    """However long it is: somebody copies it."""
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _agents(team: Team, finished: RunFinished) -> Iterator[Text]:
    if not team.agents:
        return
    widest = min(max(len(words.named(name)) for name in team.agents), _LONGEST_NAME)
    for name, agent in team.agents.items():
        mark, style = _standing(agent, finished)
        told = [part for part in (_came_to(agent, finished), *words.spent(agent.spent)) if part]
        line = Text.assemble("  ", (mark, style), " ", (f"{words.named(name):<{widest}}", "bold"))
        yield line.append("  " + " · ".join(told), "" if name == finished.winner else "dim")


def _standing(agent: Agent, finished: RunFinished) -> tuple[str, str]:
    if agent.info.id == finished.winner:
        return "★", "green"
    return ("✗", "red") if agent.state is State.FAILED else ("·", "dim")


def _came_to(agent: Agent, finished: RunFinished) -> str:
    name = agent.info.id
    if agent.state is State.FAILED:
        return f"failed: {one_line(agent.failure)}"
    votes = sum(choice == name for choice in finished.votes.values())
    parts = [_first_place(votes, finished)] if name == finished.winner else []
    if name in finished.votes:
        parts.append(words.choice(name, finished.votes[name]))
    if agent.files_changed:
        parts.append(f"{counted(agent.files_changed, 'file')} changed")
    return ", ".join(parts) or ("answered" if agent.has_answered else "no answer")


def _first_place(votes: int, finished: RunFinished) -> str:
    """Nobody has won what is not over, or what nobody voted on."""
    if finished.ended in {Ended.CONSENSUS, Ended.ROUNDS} and votes:
        return f"won with {counted(votes, 'vote')}"
    return "answered" if finished.ended is Ended.ANSWERED else "best so far"


def _files(winner: Agent, snapshot: str) -> Iterator[Text]:
    kept = words.snapshot(snapshot or winner.snapshot)
    yield Text.assemble(("  Files", "dim"), f"   {counted(winner.files_changed, 'file')}, snapshot {kept}")
    if winner.info.workspace:
        yield in_one_piece(Text.assemble(("  in      ", "dim"), clean(winner.info.workspace)))
    for path in [*winner.files][:_MOST_FILES]:
        yield in_one_piece(Text.assemble("    ", ("±", "magenta"), " ", words.named(path)))
    if winner.files_changed > _MOST_FILES:
        yield Text(f"    … and {winner.files_changed - _MOST_FILES:,} more", "dim")
