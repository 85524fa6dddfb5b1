"""precommit: what git is about to commit, checked. The verdict is of the checks alone; a model reviews beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolyard.assistant.arguments import PrecommitArguments
from toolyard.assistant.case import Case
from toolyard.assistant.composing import Question
from toolyard.assistant.files.sources import Skipped
from toolyard.assistant.output import Output
from toolyard.assistant.precommit import Inspection, inspect
from toolyard.assistant.prompts import FINDINGS_SHAPE, evidence, precommit_words
from toolyard.assistant.reviewing import as_objects, review
from toolyard.core.errors import ProviderError

_DIFF_TOKENS = 60_000
"""Of the change: what a review can hold in view, and a thread can carry on."""
_OF_CONTEXT = 4
"""One part in so many of a request, at most."""


def precommit(arguments: PrecommitArguments, case: Case) -> Output:
    case.gate.doing = "looking at the changes"
    found = inspect(
        case.gate,
        arguments.path,
        include_staged=arguments.include_staged,
        include_unstaged=arguments.include_unstaged,
    )
    case.admit()
    diff = found.diff(min(_DIFF_TOKENS, case.limits.context_tokens // _OF_CONTEXT))
    change = "\n\n".join((evidence("checks", found.told()), evidence("change", diff)))
    words = precommit_words(arguments, _files(found), change)
    question = Question("precommit", words, shape=FINDINGS_SHAPE, field="original_request")
    if not found.changes:
        output = case.kept_alone(question, found.told(), "No model was asked.")
        return _with_verdict(replace(output, status="success"), found)
    if (missing := case.lacks_model()) is not None:
        return _with_verdict(case.kept_alone(question, found.told(), missing), found)
    try:
        with case.exchange(question) as exchange:
            result = review(exchange, found.lines_of)
            content = f"{found.told()}\n\n{result.content}"
            output = exchange.keep(content, "success" if result.is_whole else "partial")
    except ProviderError as error:  # the checks hold without it
        return _with_verdict(case.kept_alone(question, found.told(), f"There is no review. {error}"), found)
    output = replace(output, notes=(*output.notes, *result.notes))
    return _with_verdict(output, found, as_objects(result.findings))


def _with_verdict(output: Output, found: Inspection, findings: list[dict[str, Any]] | None = None) -> Output:
    checks = [
        {
            "name": check.name,
            "outcome": check.outcome.value,
            "details": [{"path": each.path, "line": each.line, "text": each.text} for each in check.details],
        }
        for check in found.checks
    ]
    return replace(
        output,
        files=_files(found),
        skipped=[Skipped(change.path, change.withheld) for change in found.changes if change.withheld],
        more={"verdict": found.verdict, "checks": checks, "findings": findings or []},
    )


def _files(found: Inspection) -> tuple[str, ...]:
    """Those whose content may be seen."""
    return tuple(dict.fromkeys(change.path for change in found.changes if not change.withheld))
