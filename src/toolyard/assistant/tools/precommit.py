"""precommit: checks and reviews what git is about to commit. Either the checks or the review can stop the commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from toolyard.assistant.arguments import PrecommitArguments
from toolyard.assistant.files.sources import SkippedFile
from toolyard.assistant.findings import Severity, filter_by_severity
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.precommit import FittedDiff, Inspection, Verdict, inspect_changes
from toolyard.assistant.precommit.report import verdict_lines
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import CHANGE_FINDINGS_FORMAT, evidence_block, precommit_prompt
from toolyard.assistant.request import AssistantRequest
from toolyard.assistant.review import Review, finding_objects, request_review
from toolyard.core.errors import ProviderError
from toolyard.core.tokens import count_tokens_in_pieces
from toolyard.files.os_errors import printable_name as shown_name
from toolyard.sandbox.output_capture import truncate_middle
from toolyard.snapshots.service.format import pluralize

ReviewVerdict = Literal["clear", "concerns", "blocking", "none"]
_BLOCKING: Final[Severity] = "high"
"""Findings of this severity or worse stop a commit."""
_DIFF_TOKENS = 200_000
"""Largest part of the change that is sent: what a review can consider and a thread can carry on."""
_DIFF_SHARE = 0.75
"""Largest share of the remaining budget for the diff."""
_TOO_LONG = "the change is too long for one request"


def precommit(arguments: PrecommitArguments, request: AssistantRequest) -> AssistantOutput:
    """Checks the change, asks the model for a review, and returns the combined verdict."""
    request.ctx.notes.status = "looking at the changes"
    found = inspect_changes(
        request.ctx,
        arguments.path,
        include_staged=arguments.include_staged,
        include_unstaged=arguments.include_unstaged,
        check_rate=request.check_rate,
    )
    missing = request.missing_model_reason() if found.changes else "No model was asked."
    room = request.available_tokens() if missing is None else request.limits.context_tokens
    question, shown = _build_question(arguments, found, room, request)
    alone = _Verdict.from_results(found)
    if missing is not None:
        output = request.save_without_model(question, _render_content(found, alone), missing)
        return _with_verdict(output if found.changes else replace(output, status="success"), found, alone)
    try:
        with request.open_turn(question) as model_turn:
            result = request_review(model_turn, found.lines_of, touches=found.touches)
            verdict = _Verdict.from_results(found, result)
            lacking = tuple(_missing_parts(found, shown))
            content = f"{_render_content(found, verdict)}\n\n{result.content}"
            output = model_turn.save(content, "success" if result.is_readable and not lacking else "partial")
    except ProviderError as error:  # the checks are valid without the review
        output = request.save_without_model(question, _render_content(found, alone), f"There is no review. {error}")
        return _with_verdict(output, found, alone)
    output = replace(output, notes=(*output.notes, *lacking, *result.notes))
    return _with_verdict(output, found, verdict, shown, finding_objects(result.findings))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The verdicts of the checks and of the review, with the reasons."""

    checks: Verdict
    review: ReviewVerdict
    reasons: tuple[str, ...]

    @property
    def overall(self) -> Verdict:
        return "no-go" if self.checks == "no-go" or self.review == "blocking" else "go"

    @classmethod
    def from_results(cls, found: Inspection, result: Review | None = None) -> _Verdict:
        if result is None or not result.is_readable:
            return cls(found.verdict, "none", found.reasons)
        blocking = filter_by_severity(result.findings, _BLOCKING)
        reasons = tuple(f"review: {each.file}:{each.line} {each.title}" for each in blocking)
        review_verdict = "blocking" if blocking else "concerns" if result.findings else "clear"
        return cls(found.verdict, review_verdict, (*found.reasons, *reasons))


def _render_content(found: Inspection, verdict: _Verdict) -> str:
    begin = verdict_lines(verdict.overall, verdict.checks, verdict.review, verdict.reasons)
    return f"{begin}\n\n{found.render_report()}"


def _build_question(
    arguments: PrecommitArguments, found: Inspection, room: int, request: AssistantRequest
) -> tuple[Question, FittedDiff]:
    """Builds the question with as much of the change as fits; also returns how much that is."""
    # A character is hardly ever more than one token, so this bounds the report even with long file names.
    checks = evidence_block("checks", truncate_middle(found.render_report(), room // 2))
    names = [shown_name(path) for path in _shown_files(found)]
    around = precommit_prompt(arguments, names, checks)
    left = room - count_tokens_in_pieces(f"{around}{CHANGE_FINDINGS_FORMAT}", request.ctx.check_time)
    shown = found.render_diff(min(_DIFF_TOKENS, int(left * _DIFF_SHARE)), request.ctx.check_time)
    change = "\n\n".join((checks, evidence_block("change", shown.text)))
    prompt = precommit_prompt(arguments, names, change)
    return Question("precommit", prompt, answer_format=CHANGE_FINDINGS_FORMAT, field="original_request"), shown


def _missing_parts(found: Inspection, shown: FittedDiff) -> Iterator[str]:
    """Yields notes on the parts of the change that the model did not see."""
    if not found.is_complete:
        yield "Not all of the change was inspected: split the commit."
    if shown.lines < shown.total_lines:
        parts = [f"the model saw {shown.lines:,} of {shown.total_lines:,} lines of the diff"]
        parts += (
            [f"only the beginning of {pluralize(len(shown.truncated_files), 'file')}"]
            if shown.truncated_files
            else []
        )
        parts += [f"nothing of {pluralize(len(shown.omitted_files), 'file')}"] if shown.omitted_files else []
        yield f"The change is too long for one request: {', '.join(parts)}."
    if shown.long_lines:
        yield f"Of {pluralize(shown.long_lines, 'very long line')} the model saw only the beginning."


def _with_verdict(
    output: AssistantOutput,
    found: Inspection,
    verdict: _Verdict,
    shown: FittedDiff | None = None,
    findings: list[dict[str, Any]] | None = None,
) -> AssistantOutput:
    """Adds verdict, checks and findings to the output; `shown` is what a model saw, if one did."""
    results = [
        {
            "name": check.name,
            "outcome": check.outcome.value,
            "details": [{"path": each.path, "line": each.line, "text": each.text} for each in check.details],
        }
        for check in found.checks
    ]
    skipped = [SkippedFile(change.path, change.withheld) for change in found.changes if change.withheld]
    if shown is not None:
        skipped += [SkippedFile(path, f"left out: {_TOO_LONG}") for path in shown.omitted_files]
        skipped += [SkippedFile(path, f"shown in part: {_TOO_LONG}") for path in shown.truncated_files]
    return replace(
        output,
        files=_shown_files(found, () if shown is None else shown.omitted_files),
        skipped=skipped,
        more={
            "verdict": verdict.overall,
            "checks": verdict.checks,
            "review": verdict.review,
            "check_results": results,
            "findings": findings or [],
        },
    )


def _shown_files(found: Inspection, left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the files whose content may be seen and was not left out."""
    unseen = set(left_out)
    seen = (change.path for change in found.changes if not change.withheld and change.path not in unseen)
    return tuple(dict.fromkeys(seen))
