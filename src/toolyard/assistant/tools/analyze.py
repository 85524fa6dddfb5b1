"""analyze: code explained. The model sees an outline and the graph of imports before the files themselves."""

from __future__ import annotations

from toolyard.assistant.arguments import AnalyzeArguments
from toolyard.assistant.files.import_graph import import_graph
from toolyard.assistant.files.lookup import Found
from toolyard.assistant.files.outlines import outlines
from toolyard.assistant.output import Output
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import analyze_words, evidence
from toolyard.assistant.request import Case


def analyze(arguments: AnalyzeArguments, case: Case) -> Output:
    found = case.find(arguments.files)
    case.admit()
    case.gate.doing = "outlining"
    structure = _structure(found, case)
    question = Question(
        "analyze",
        analyze_words(arguments),
        evidence=evidence("outline and imports", structure),
        sources=found.sources,
        skipped=found.skipped,
        field="question",
    )
    if (missing := case.lacks_model()) is not None:
        return case.kept_alone(question, structure, missing, arguments.continuation_id)
    with case.exchange(question, arguments.continuation_id) as exchange:
        return exchange.keep(exchange.ask())


def _structure(found: Found, case: Case) -> str:
    shown = zip(found.sources, outlines(found.sources, case.gate.check_time), strict=True)
    parts = [
        import_graph(found.sources, case.gate.check_time).render(),
        *(f"{source.path}\n{outline}" for source, outline in shown),
    ]
    return "\n\n".join(part for part in parts if part)
