"""Numbers, times and endings as both reports say them, and texts with everything visible that would hide or act."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from toolyard.team.events import Ended
from toolyard.team.report.timeline_model import Made, Story

_KEPT: Final = frozenset("\n\t")
_JOINERS: Final = frozenset("\u200c\u200d\ufe0f")
"""Parts of words and pictures in many scripts."""
_CENT: Final = 0.01
_MINUTE, _HOUR = 60, 3600
_SNAPSHOT: Final = 12
ENDED: Final = {
    Ended.ANSWERED: "Answered",
    Ended.CONSENSUS: "Consensus",
    Ended.ROUNDS: "Rounds are over",
    Ended.TIME: "Time is over",
    Ended.TOKENS: "Tokens are spent",
    Ended.COST: "Money is spent",
    Ended.INTERRUPTED: "Interrupted",
    Ended.FAILED: "Failed",
}
CUT_OFF: Final = "Not finished"
WHY_CUT_OFF: Final = "The log ends before the run does: it is still going on, or it was ended from outside."


def visible(text: str) -> str:
    """`text` with an escape for every character that is not seen but may act, as on the order of words."""
    if text.isprintable():
        return text
    return "".join(_seen(c) for c in text.replace("\r\n", "\n"))


def _seen(character: str) -> str:
    if character.isprintable() or character in _KEPT or character in _JOINERS or character.isspace():
        return character if character not in "\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029" else " "
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str, longest: int = 200) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return _of_two(whole // _MINUTE, "min", whole % _MINUTE, "s")
    return _of_two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min")


def _of_two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit}" + (f" {small} {small_unit}" if small else "")


def offset(story: Story, at: float) -> str:
    """How long after the beginning, as on a stop watch."""
    whole = int(max(at - story.began, 0))
    minutes = f"{whole // _MINUTE % _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _HOUR}:{minutes}" if whole >= _HOUR else minutes


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(cost: float | None) -> str:
    if cost is None:
        return "not known"
    return f"${cost:.2f}" if cost >= _CENT or not cost else f"${cost:.4f}"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def snapshot(identity: str) -> str:
    return visible(identity)[:_SNAPSHOT]


def ending(story: Story) -> tuple[str, str]:
    """How it ended, in a word and in a sentence."""
    if story.finished is None:
        return CUT_OFF, WHY_CUT_OFF
    return ENDED[story.finished.ended], story.finished.why


def limit(name: str, value: float) -> str:
    if name == "seconds":
        return duration(value)
    return money(value) if name == "cost" else f"{value:,.0f} {one_line(name)}"


def arguments(made: Made) -> str:
    try:
        return json.dumps(made.arguments, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "…"


def came_to(story: Story, agent: str) -> str:
    """What an agent's work led to."""
    parts, finished = story.parts_of(agent), story.finished
    failure = next((part.failure for part in reversed(parts) if part.failure), None)
    if failure is not None:
        return f"failed: {one_line(failure.why)}"
    if finished is not None and finished.winner == agent:
        votes = sum(choice == agent for choice in finished.votes.values())
        return f"won with {counted(votes, 'vote')}" if votes else "won"
    answers = sum(part.answer is not None for part in parts)
    return counted(answers, "answer") if answers else "no answer"
