"""codereview: findings with a place and a fix. Lines are checked to exist, and the filter of severities is ours."""

from __future__ import annotations

from dataclasses import replace

from toolyard.assistant.arguments import CodereviewArguments
from toolyard.assistant.findings import Finding, at_least, in_order
from toolyard.assistant.linting import Evidence, lint
from toolyard.assistant.output import Output
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import FINDINGS_SHAPE, codereview_words, evidence
from toolyard.assistant.request import Case
from toolyard.assistant.review import Review, as_objects, review, told
from toolyard.assistant.secret_findings import secret_findings
from toolyard.assistant.secrets.redaction import mask_known_secrets


def codereview(arguments: CodereviewArguments, case: Case) -> Output:
    found = case.find(arguments.files)
    case.admit()
    case.gate.doing = "running linters"
    linted = lint(case.gate, [source.path for source in found.sources])
    secrets = secret_findings(found.sources)
    without_model = at_least(in_order((*secrets, *linted.as_findings())), arguments.severity_filter)
    question = Question(
        "codereview",
        codereview_words(arguments),
        shape=FINDINGS_SHAPE,
        evidence=evidence("linters", mask_known_secrets(linted.render())),
        sources=found.sources,
        skipped=found.skipped,
        field="context",
    )
    if (missing := case.lacks_model()) is not None:
        return _by_linters(question, linted, without_model, case, missing)
    with case.exchange(question) as exchange:
        lines_of = {source.path: source.lines for source in found.sources}
        result = review(exchange, lines_of, arguments.severity_filter, local=secrets)
        if not result.is_whole:
            result = _with_linters(result, without_model)
        output = exchange.keep(result.content, "success" if result.is_whole else "partial")
    notes = (*output.notes, *linted.notes, *result.notes)
    return replace(output, notes=notes, more={"findings": as_objects(result.findings)})


def _with_linters(result: Review, findings: tuple[Finding, ...]) -> Review:
    """What the model said, and in the place of findings that could not be read those made without it."""
    if not findings:
        return result
    content = f"{result.content}\n\n{told('What linters and the scan for secrets found:', findings)}"
    notes = (*result.notes, "The findings are those of linters and the scan for secrets alone.")
    return replace(result, content=content, findings=findings, notes=notes)


def _by_linters(
    question: Question, linted: Evidence, findings: tuple[Finding, ...], case: Case, missing: str
) -> Output:
    ran = (
        f"Only linters looked at it: {', '.join(linted.ran)}." if linted.ran else "No linter could look at it either."
    )
    output = case.kept_alone(question, told(f"There is no review by a model. {ran}", findings), missing)
    return replace(output, notes=(*output.notes, *linted.notes), more={"findings": as_objects(findings)})
