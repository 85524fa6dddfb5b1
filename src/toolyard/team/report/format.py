"""Formats numbers, times and end reasons for both reports, and makes invisible characters visible."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from toolyard.team.events import EndReason
from toolyard.team.report.timeline_model import CallStep, RunTimeline

_KEPT_WHITESPACE: Final = frozenset("\n\t")
_JOINERS: Final = frozenset("\u200c\u200d\ufe0f")
"""Joiners that many scripts and emoji need."""
_CENT: Final = 0.01
_MINUTE, _HOUR = 60, 3600
_SNAPSHOT_CHARS: Final = 12
END_LABELS: Final = {
    EndReason.ANSWERED: "Answered",
    EndReason.CONSENSUS: "Consensus",
    EndReason.ROUNDS: "Round limit reached",
    EndReason.TIME: "Time limit reached",
    EndReason.TOKENS: "Token limit reached",
    EndReason.COST: "Cost limit reached",
    EndReason.INTERRUPTED: "Interrupted",
    EndReason.FAILED: "Failed",
}
UNFINISHED_LABEL: Final = "Not finished"
UNFINISHED_REASON: Final = "The log ends before the run does: the run is still active, or it was killed."


def visible(text: str) -> str:
    """Returns `text` with escapes for invisible characters that have an effect, such as text direction marks."""
    if text.isprintable():
        return text
    return "".join(_visible_char(c) for c in text.replace("\r\n", "\n"))


def _visible_char(character: str) -> str:
    if character.isprintable() or character in _KEPT_WHITESPACE or character in _JOINERS or character.isspace():
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
        return _two_units(whole // _MINUTE, "min", whole % _MINUTE, "s")
    return _two_units(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min")


def _two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large} {unit}" + (f" {small} {small_unit}" if small else "")


def offset(timeline: RunTimeline, at: float) -> str:
    """Returns the time since the start of the run, as on a stop watch."""
    whole = int(max(at - timeline.began, 0))
    minutes = f"{whole // _MINUTE % _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _HOUR}:{minutes}" if whole >= _HOUR else minutes


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(cost: float | None) -> str:
    if cost is None:
        return "unknown"
    return f"${cost:.2f}" if cost >= _CENT or not cost else f"${cost:.4f}"


def pluralize(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def short_snapshot(identity: str) -> str:
    return visible(identity)[:_SNAPSHOT_CHARS]


def end_labels(timeline: RunTimeline) -> tuple[str, str]:
    """Returns how the run ended: a label and a sentence."""
    if timeline.finished is None:
        return UNFINISHED_LABEL, UNFINISHED_REASON
    return END_LABELS[timeline.finished.ended], timeline.finished.why


def format_limit(name: str, value: float) -> str:
    if name == "seconds":
        return duration(value)
    return money(value) if name == "cost" else f"{value:,.0f} {one_line(name)}"


def arguments_json(call: CallStep) -> str:
    try:
        return json.dumps(call.arguments, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "…"


def agent_outcome(timeline: RunTimeline, agent: str) -> str:
    """Returns the result of an agent's work in a few words."""
    parts, finished = timeline.agent_rounds(agent), timeline.finished
    failure = next((part.failure for part in reversed(parts) if part.failure), None)
    if failure is not None:
        return f"failed: {one_line(failure.why)}"
    if finished is not None and finished.winner == agent:
        votes = sum(choice == agent for choice in finished.votes.values())
        return f"won with {pluralize(votes, 'vote')}" if votes else "won"
    answers = sum(part.answer is not None for part in parts)
    return pluralize(answers, "answer") if answers else "no answer"
