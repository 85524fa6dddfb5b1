"""thinkdeep: an analysis taken further, with an answer to each focus area."""

from __future__ import annotations

from dataclasses import replace

from toolyard.assistant.arguments import ThinkdeepArguments
from toolyard.assistant.focus_areas import Areas, read_areas
from toolyard.assistant.output import Output
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import AREAS_SHAPE, thinkdeep_words
from toolyard.assistant.request import Case, Exchange
from toolyard.assistant.structured_answer import read_reply


def thinkdeep(arguments: ThinkdeepArguments, case: Case) -> Output:
    found = case.find(arguments.files)
    case.admit()
    question = Question(
        "thinkdeep",
        thinkdeep_words(arguments),
        shape=AREAS_SHAPE if arguments.focus_areas else "",
        sources=found.sources,
        skipped=found.skipped,
        field="current_analysis",
    )
    with case.exchange(question, arguments.continuation_id) as exchange:
        if arguments.focus_areas:
            return _by_area(arguments.focus_areas, exchange)
        return replace(exchange.keep(exchange.ask()), more={"areas": []})


def _by_area(wanted: list[str], exchange: Exchange) -> Output:
    reply = read_reply(exchange, lambda value: read_areas(value, wanted), _lacking)
    areas = reply.value
    if areas is None:
        output = exchange.keep(reply.text, "partial")
        notes = (*output.notes, f"The answer has another shape: {reply.lacks}.", *reply.notes)
        return replace(output, notes=notes, more={"areas": []})
    output = exchange.keep(_told(areas), "partial" if areas.missing else "success")
    notes = (*output.notes, *(f"No answer to the focus area {name}." for name in areas.missing), *reply.notes)
    return replace(output, notes=notes, more={"areas": [{"area": a.area, "answer": a.answer} for a in areas.answers]})


def _lacking(areas: Areas) -> str:
    return f"it has no answer to {'; '.join(areas.missing)}" if areas.missing else ""


def _told(areas: Areas) -> str:
    parts = [f"## {each.area}\n{each.answer}" for each in areas.answers]
    return "\n\n".join([*([areas.summary] if areas.summary else []), *parts])
