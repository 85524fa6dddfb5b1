"""precommit: what git is about to commit, checked. The verdict is of the checks alone; a model reviews beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from toolyard.app.captured import cut
from toolyard.app.snapshots.telling import counted
from toolyard.assistant.arguments import PrecommitArguments
from toolyard.assistant.case import Case
from toolyard.assistant.composing import Question
from toolyard.assistant.files.sources import Skipped
from toolyard.assistant.output import Output
from toolyard.assistant.precommit import Fitted, Inspection, inspect
from toolyard.assistant.prompts import FINDINGS_SHAPE, evidence, precommit_words
from toolyard.assistant.reviewing import as_objects, review
from toolyard.core.errors import ProviderError
from toolyard.core.tokens import count_in_pieces
from toolyard.fs.faults import shown as shown_name

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
    if missing is not None:
        output = case.kept_alone(question, found.told(), missing)
        return _with_verdict(output if found.changes else replace(output, status="success"), found)
    try:
        with case.exchange(question) as exchange:
            result = review(exchange, found.lines_of)
            content = f"{found.told()}\n\n{result.content}"
            lacking = tuple(_lacking(found, shown))
            output = exchange.keep(content, "success" if result.is_whole and not lacking else "partial")
    except ProviderError as error:  # the checks hold without it
        return _with_verdict(case.kept_alone(question, found.told(), f"There is no review. {error}"), found)
    output = replace(output, notes=(*output.notes, *lacking, *result.notes))
    return _with_verdict(output, found, shown, as_objects(result.findings))


def _question(arguments: PrecommitArguments, found: Inspection, room: int, case: Case) -> tuple[Question, Fitted]:
    """What is asked, with as much of the change as there is room for, and how much that is."""
    # A character is hardly ever more than a token: whatever names the checks tell of, there is room for the rest.
    checks = evidence("checks", cut(found.told(), room // 2))
    names = [shown_name(path) for path in _files(found)]
    around = precommit_words(arguments, names, checks)
    left = room - count_in_pieces(f"{around}{FINDINGS_SHAPE}", case.gate.check_time)
    shown = found.diff(min(_DIFF_TOKENS, int(left * _FOR_DIFF)), case.gate.check_time)
    change = "\n\n".join((checks, evidence("change", shown.text)))
    words = precommit_words(arguments, names, change)
    return Question("precommit", words, shape=FINDINGS_SHAPE, field="original_request"), shown


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
    output: Output, found: Inspection, shown: Fitted | None = None, findings: list[dict[str, Any]] | None = None
) -> Output:
    """`shown` is what a model saw, where one did."""
    checks = [
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
        more={"verdict": found.verdict, "checks": checks, "findings": findings or []},
    )


def _files(found: Inspection, left_out: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Those whose content may be seen, and was not left out."""
    unseen = set(left_out)
    seen = (change.path for change in found.changes if not change.withheld and change.path not in unseen)
    return tuple(dict.fromkeys(seen))
