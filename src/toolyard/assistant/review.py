"""Requests a review from the model: parses its findings, checks them against the files, filters and renders them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolyard.assistant.arguments import SeverityFilter
from toolyard.assistant.findings import (
    Finding,
    filter_by_severity,
    filter_to_change,
    read_findings,
    sort_and_deduplicate,
)
from toolyard.assistant.request import ModelTurn
from toolyard.assistant.structured_answer import ask_for_json
from toolyard.snapshots.service.format import pluralize

_SHOWN_DROPPED = 5


@dataclass(frozen=True, slots=True)
class Review:
    """The outcome of a review."""

    content: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    is_readable: bool
    """Whether the model's answer could be parsed."""


@dataclass(frozen=True, slots=True)
class _ParsedReview:
    summary: str
    findings: tuple[Finding, ...]
    dropped: tuple[str, ...]


def request_review(
    model_turn: ModelTurn,
    lines_of: Mapping[str, int],
    severity_filter: SeverityFilter = "all",
    touches: Callable[[str, int], bool] | None = None,
    local: Sequence[Finding] = (),
) -> Review:
    """Asks the model for findings. `lines_of` holds the files that may be named, with their number of lines.

    For a change, `touches` says which lines belong to it. `local` findings were made without a model and are merged
    with the model's.
    """
    reply = ask_for_json(model_turn, lambda value: _parse_review(value, lines_of, touches))
    if reply.value is None:
        why = f"The findings cannot be read: {reply.problem}."
        return Review(reply.text, (), (why, *reply.notes), is_readable=False)
    found = reply.value
    every = sort_and_deduplicate((*local, *found.findings))
    shown = filter_by_severity(every, severity_filter)
    hidden = len(every) - len(shown)
    notes = [f"Left out: {why}" for why in found.dropped[:_SHOWN_DROPPED]]
    if len(found.dropped) > _SHOWN_DROPPED:
        notes.append(f"Left out: {pluralize(len(found.dropped) - _SHOWN_DROPPED, 'more finding')}.")
    if hidden:
        notes.append(f"severity_filter hides {pluralize(hidden, 'finding')} below {severity_filter}.")
    return Review(render_findings(found.summary, shown), shown, tuple(notes), is_readable=True)


def _parse_review(
    value: object, lines_of: Mapping[str, int], touches: Callable[[str, int], bool] | None
) -> _ParsedReview:
    found = read_findings(value, lines_of, is_change=touches is not None)
    if touches is not None:
        found = filter_to_change(found, touches)
    summary = cast("dict[str, Any]", value).get("summary") if isinstance(value, dict) else None
    return _ParsedReview(summary.strip() if isinstance(summary, str) else "", found.findings, found.dropped)


def render_findings(summary: str, findings: Sequence[Finding]) -> str:
    """Renders findings as text for readers."""
    lines = [summary] if summary else []
    if not findings:
        lines.append("No findings.")
    for number, each in enumerate(findings, 1):
        location = f"{each.file}:{each.line}" if each.line else each.file
        lines.append(f"{number}. **{each.severity}** ({each.category}) {location}: {each.title}")
        if each.cause:
            lines.append(f"   Cause: {each.cause}")
        if each.fix:
            lines.append("   Fix: " + each.fix.strip().replace("\n", "\n   "))
    return "\n".join(lines)


def finding_objects(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Returns the findings as JSON objects for the structured result."""
    return [
        {
            "severity": each.severity,
            "category": each.category,
            "file": each.file,
            "line": each.line,
            "title": each.title,
            "fix": each.fix,
            **({"cause": each.cause} if each.cause else {}),
        }
        for each in findings
    ]
