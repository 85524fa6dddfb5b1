"""analyze: explains code. The model sees an outline and the import graph before the files."""

from __future__ import annotations

from toolyard.assistant.arguments import AnalyzeArguments
from toolyard.assistant.files.import_graph import import_graph
from toolyard.assistant.files.lookup import FoundFiles
from toolyard.assistant.files.outlines import outlines
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import analyze_prompt, evidence_block
from toolyard.assistant.request import AssistantRequest


def analyze(arguments: AnalyzeArguments, request: AssistantRequest) -> AssistantOutput:
    """Asks the model the question about the files; without a model, returns their structure."""
    found = request.find_files(arguments.files)
    request.check_rate()
    request.ctx.notes.status = "outlining"
    structure = _describe_structure(found, request)
    question = Question(
        "analyze",
        analyze_prompt(arguments),
        evidence=evidence_block("outline and imports", structure),
        sources=found.sources,
        skipped=found.skipped,
        field="question",
    )
    if (missing := request.missing_model_reason()) is not None:
        return request.save_without_model(question, structure, missing, arguments.continuation_id)
    with request.open_turn(question, arguments.continuation_id) as model_turn:
        return model_turn.save(model_turn.ask())


def _describe_structure(found: FoundFiles, request: AssistantRequest) -> str:
    shown = zip(found.sources, outlines(found.sources, request.ctx.check_time), strict=True)
    parts = [
        import_graph(found.sources, request.ctx.check_time).render(),
        *(f"{source.path}\n{outline}" for source, outline in shown),
    ]
    return "\n\n".join(part for part in parts if part)
