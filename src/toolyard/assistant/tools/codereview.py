"""codereview: findings with location and fix. Locations are verified, and the severity filter is applied here."""

from __future__ import annotations

from dataclasses import replace

from toolyard.assistant.arguments import CodereviewArguments
from toolyard.assistant.findings import Finding, filter_by_severity, sort_and_deduplicate
from toolyard.assistant.linting import LintEvidence, lint
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import FINDINGS_FORMAT, codereview_prompt, evidence_block
from toolyard.assistant.request import AssistantRequest
from toolyard.assistant.review import Review, finding_objects, render_findings, request_review
from toolyard.assistant.secret_findings import secret_findings
from toolyard.assistant.secrets.redaction import mask_known_secrets


def codereview(arguments: CodereviewArguments, request: AssistantRequest) -> AssistantOutput:
    """Runs the linters and asks the model for findings; without a model, returns the linters' findings."""
    found = request.find_files(arguments.files)
    request.check_rate()
    request.ctx.notes.status = "running linters"
    linted = lint(request.ctx, [source.path for source in found.sources])
    secrets = secret_findings(found.sources)
    without_model = filter_by_severity(
        sort_and_deduplicate((*secrets, *linted.as_findings())), arguments.severity_filter
    )
    question = Question(
        "codereview",
        codereview_prompt(arguments),
        answer_format=FINDINGS_FORMAT,
        evidence=evidence_block("linters", mask_known_secrets(linted.render())),
        sources=found.sources,
        skipped=found.skipped,
        field="context",
    )
    if (missing := request.missing_model_reason()) is not None:
        return _review_without_model(question, linted, without_model, request, missing)
    with request.open_turn(question) as model_turn:
        lines_of = {source.path: source.lines for source in found.sources}
        result = request_review(model_turn, lines_of, arguments.severity_filter, local=secrets)
        if not result.is_readable:
            result = _with_linter_findings(result, without_model)
        output = model_turn.save(result.content, "success" if result.is_readable else "partial")
    notes = (*output.notes, *linted.notes, *result.notes)
    return replace(output, notes=notes, more={"findings": finding_objects(result.findings)})


def _with_linter_findings(result: Review, findings: tuple[Finding, ...]) -> Review:
    """Adds findings of linters and the secret scan to a review that could not be parsed."""
    if not findings:
        return result
    content = f"{result.content}\n\n{render_findings('Findings of linters and the secret scan:', findings)}"
    notes = (*result.notes, "The findings come from linters and the secret scan only.")
    return replace(result, content=content, findings=findings, notes=notes)


def _review_without_model(
    question: Question, linted: LintEvidence, findings: tuple[Finding, ...], request: AssistantRequest, missing: str
) -> AssistantOutput:
    ran = f"Only linters checked it: {', '.join(linted.ran)}." if linted.ran else "No linter could check it either."
    output = request.save_without_model(
        question, render_findings(f"There is no review by a model. {ran}", findings), missing
    )
    return replace(output, notes=(*output.notes, *linted.notes), more={"findings": finding_objects(findings)})
