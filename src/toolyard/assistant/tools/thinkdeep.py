"""thinkdeep: extends an analysis, with an answer to each focus area."""

from __future__ import annotations

from dataclasses import replace

from toolyard.assistant.arguments import ThinkdeepArguments
from toolyard.assistant.focus_areas import FocusAreaAnswers, read_areas
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import AREAS_FORMAT, thinkdeep_prompt
from toolyard.assistant.request import AssistantRequest, ModelTurn
from toolyard.assistant.structured_answer import ask_for_json


def thinkdeep(arguments: ThinkdeepArguments, request: AssistantRequest) -> AssistantOutput:
    """Asks the model to extend the analysis; with focus areas, returns an answer to each."""
    found = request.find_files(arguments.files)
    request.check_rate()
    question = Question(
        "thinkdeep",
        thinkdeep_prompt(arguments),
        answer_format=AREAS_FORMAT if arguments.focus_areas else "",
        sources=found.sources,
        skipped=found.skipped,
        field="current_analysis",
    )
    with request.open_turn(question, arguments.continuation_id) as model_turn:
        if arguments.focus_areas:
            return _answer_by_area(arguments.focus_areas, model_turn)
        return replace(model_turn.save(model_turn.ask()), more={"areas": []})


def _answer_by_area(wanted: list[str], model_turn: ModelTurn) -> AssistantOutput:
    reply = ask_for_json(model_turn, lambda value: read_areas(value, wanted), _missing_areas)
    areas = reply.value
    if areas is None:
        output = model_turn.save(reply.text, "partial")
        notes = (*output.notes, f"The answer does not have the requested form: {reply.problem}.", *reply.notes)
        return replace(output, notes=notes, more={"areas": []})
    output = model_turn.save(_render_areas(areas), "partial" if areas.missing else "success")
    notes = (*output.notes, *(f"No answer to the focus area {name}." for name in areas.missing), *reply.notes)
    return replace(output, notes=notes, more={"areas": [{"area": a.area, "answer": a.answer} for a in areas.answers]})


def _missing_areas(areas: FocusAreaAnswers) -> str:
    return f"it has no answer to {'; '.join(areas.missing)}" if areas.missing else ""


def _render_areas(areas: FocusAreaAnswers) -> str:
    parts = [f"## {each.area}\n{each.answer}" for each in areas.answers]
    return "\n\n".join([*([areas.summary] if areas.summary else []), *parts])
