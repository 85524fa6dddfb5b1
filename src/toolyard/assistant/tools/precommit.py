"""precommit: what git is about to commit, checked and reviewed. The verdict joins both: either stops the commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from toolyard.assistant.arguments import PrecommitArguments
from toolyard.assistant.files.sources import Skipped
from toolyard.assistant.findings import Severity, at_least
from toolyard.assistant.output import Output
from toolyard.assistant.precommit import Fitted, Inspection, Verdict, inspect
from toolyard.assistant.precommit.report import verdict_lines
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import CHANGE_FINDINGS_SHAPE, evidence, precommit_words
from toolyard.assistant.request import Case
from toolyard.assistant.review import Review, as_objects, review
from toolyard.core.errors import ProviderError
from toolyard.core.tokens import count_in_pieces
from toolyard.files.os_errors import shown as shown_name
from toolyard.sandbox.output_capture import cut
from toolyard.snapshots.service.format import counted

ReviewVerdict = Literal["clear", "concerns", "blocking", "none"]
_BLOCKING: Final[Severity] = "high"
"""Findings of this severity, and of worse ones, stop a commit."""
_DIFF_TOKENS = 200_000
"""Of the change: what a review can hold in view, and a thread can carry on."""
_FOR_DIFF = 0.75
"""Of the room that the rest of the question leaves, at most."""
_TOO_LONG = "the change is too long for one request"


def precommit(arguments: PrecommitArguments, case: Case) -> Output:
    case.gate.doing = "looking at the changes"
    found = inspect(
        case.gate,
        arguments.path,
        include_staged=arguments.include_staged,
        include_unstaged=arguments.include_unstaged,
        admit=case.admit,
    )
    missing = case.lacks_model() if found.changes else "No model was asked."
    room = case.room() if missing is None else case.limits.context_tokens
    question, shown = _question(arguments, found, room, case)
    alone = _Verdict.of(found)
    if missing is not None:
        output = case.kept_alone(question, _content(found, alone), missing)
        return _with_verdict(output if found.changes else replace(output, status="success"), found, alone)
    try:
        with case.exchange(question) as exchange:
            result = review(exchange, found.lines_of, touches=found.touches)
            verdict = _Verdict.of(found, result)
            lacking = tuple(_lacking(found, shown))
            content = f"{_content(found, verdict)}\n\n{result.content}"
            output = exchange.keep(content, "success" if result.is_whole and not lacking else "partial")
    except ProviderError as error:  # the checks hold without it
        output = case.kept_alone(question, _content(found, alone), f"There is no review. {error}")
        return _with_verdict(output, found, alone)
    output = replace(output, notes=(*output.notes, *lacking, *result.notes))
    return _with_verdict(output, found, verdict, shown, as_objects(result.findings))


@dataclass(frozen=True, slots=True)
class _Verdict:
    checks: Verdict
    review: ReviewVerdict
    reasons: tuple[str, ...]

    @property
    def joined(self) -> Verdict:
        return "no-go" if self.checks == "no-go" or self.review == "blocking" else "go"

    @classmethod
    def of(cls, found: Inspection, result: Review | None = None) -> _Verdict:
        if result is None or not result.is_whole:
            return cls(found.verdict, "none", found.reasons)
        blocking = at_least(result.findings, _BLOCKING)
        reasons = tuple(f"review: {each.file}:{each.line} {each.title}" for each in blocking)
        review_verdict = "blocking" if blocking else "concerns" if result.findings else "clear"
        return cls(found.verdict, review_verdict, (*found.reasons, *reasons))


def _content(found: Inspection, verdict: _Verdict) -> str:
    begin = verdict_lines(verdict.joined, verdict.checks, verdict.review, verdict.reasons)
    return f"{begin}\n\n{found.report()}"


def _question(arguments: PrecommitArguments, found: Inspection, room: int, case: Case) -> tuple[Question, Fitted]:
    """What is asked, with as much of the change as there is room for, and how much that is."""
    # A character is hardly ever more than a token: whatever names the checks tell of, there is room for the rest.
    checks = evidence("checks", cut(found.report(), room // 2))
    names = [shown_name(path) for path in _files(found)]
    around = precommit_words(arguments, names, checks)
    left = room - count_in_pieces(f"{around}{CHANGE_FINDINGS_SHAPE}", case.gate.check_time)
    shown = found.diff(min(_DIFF_TOKENS, int(left * _FOR_DIFF)), case.gate.check_time)
    change = "\n\n".join((checks, evidence("change", shown.text)))
    words = precommit_words(arguments, names, change)
    return Question("precommit", words, shape=CHANGE_FINDINGS_SHAPE, field="original_request"), shown


def _lacking(found: Inspection, shown: Fitted) -> Iterator[str]:
    """What of the change the model did not see."""
    if not found.is_whole:
        yield "Not all of the change was looked at: commit less at once."
    if shown.lines < shown.of_lines:
        parts = [f"the model saw {shown.lines:,} of {shown.of_lines:,} lines of the diff"]
        parts += [f"only the beginning of {counted(len(shown.in_part), 'file')}"] if shown.in_part else []
        parts += [f"nothing of {counted(len(shown.left_out), 'file')}"] if shown.left_out else []
        yield f"The change is too long for one request: {', '.join(parts)}."
    if shown.long_lines:
        yield f"Of {counted(shown.long_lines, 'very long line')} the model saw only the beginning."


def _with_verdict(
    output: Output,
    found: Inspection,
    verdict: _Verdict,
    shown: Fitted | None = None,
    findings: list[dict[str, Any]] | None = None,
) -> Output:
    """`shown` is what a model saw, where one did."""
    results = [
        {
            "name": check.name,
            "outcome": check.outcome.value,
            "details": [{"path": each.path, "line": each.line, "text": each.text} for each in check.details],
        }
        for check in found.checks
    ]
    skipped = [Skipped(change.path, change.withheld) for change in found.changes if change.withheld]
    if shown is not None:
        skipped += [Skipped(path, f"left out: {_TOO_LONG}") for path in shown.left_out]
        skipped += [Skipped(path, f"shown in part: {_TOO_LONG}") for path in shown.in_part]
    return replace(
        output,
        files=_files(found, () if shown is None else shown.left_out),
        skipped=skipped,
        more={
            "verdict": verdict.joined,
            "checks": verdict.checks,
            "review": verdict.review,
            "check_results": results,
            "findings": findings or [],
        },
    )


def _files(found: Inspection, left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Those whose content may be seen, and was not left out."""
    unseen = set(left_out)
    seen = (change.path for change in found.changes if not change.withheld and change.path not in unseen)
    return tuple(dict.fromkeys(seen))
