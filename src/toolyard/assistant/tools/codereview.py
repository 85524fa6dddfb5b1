"""codereview: findings with a place and a fix. Lines are checked to exist, and the filter of severities is ours."""

from __future__ import annotations

from dataclasses import replace

from toolyard.assistant.arguments import CodereviewArguments
from toolyard.assistant.case import Case
from toolyard.assistant.composing import Question
from toolyard.assistant.findings import Finding, at_least
from toolyard.assistant.linting import Evidence, lint
from toolyard.assistant.output import Output
from toolyard.assistant.prompts import FINDINGS_SHAPE, codereview_words, evidence
from toolyard.assistant.reviewing import Review, as_objects, review, told


def codereview(arguments: CodereviewArguments, case: Case) -> Output:
    found = case.find(arguments.files)
    case.admit()
    case.gate.doing = "running linters"
    linted = lint(case.gate, [source.path for source in found.sources])
    question = Question(
        "codereview",
        codereview_words(arguments),
        shape=FINDINGS_SHAPE,
        evidence=evidence("linters", linted.render()),
        sources=found.sources,
        skipped=found.skipped,
        field="context",
    )
    if (missing := case.lacks_model()) is not None:
        return _by_linters(arguments, question, linted, case, missing)
    with case.exchange(question) as exchange:
        lines_of = {source.path: source.lines for source in found.sources}
        result = review(exchange, lines_of, arguments.severity_filter)
        if not result.is_whole:
            result = _with_linters(result, at_least(linted.as_findings(), arguments.severity_filter))
        output = exchange.keep(result.content, "success" if result.is_whole else "partial")
    notes = (*output.notes, *linted.notes, *result.notes)
    return replace(output, notes=notes, more={"findings": as_objects(result.findings)})


def _with_linters(result: Review, findings: tuple[Finding, ...]) -> Review:
    """What the model said, and in the place of findings that could not be read those of linters."""
    if not findings:
        return result
    content = f"{result.content}\n\n{told('What linters found:', findings)}"
    notes = (*result.notes, "The findings are those of linters alone.")
    return replace(result, content=content, findings=findings, notes=notes)


def _by_linters(
    arguments: CodereviewArguments, question: Question, linted: Evidence, case: Case, missing: str
) -> Output:
    findings = at_least(linted.as_findings(), arguments.severity_filter)
    ran = (
        f"Only linters looked at it: {', '.join(linted.ran)}." if linted.ran else "No linter could look at it either."
    )
    output = case.kept_alone(question, told(f"There is no review by a model. {ran}", findings), missing)
    return replace(output, notes=(*output.notes, *linted.notes), more={"findings": as_objects(findings)})
