"""Parses the answers to thinkdeep's focus areas from the JSON shapes that models commonly use. Pure functions.

The result is about as long as the reply, whatever the reply is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolyard.assistant.json_extraction import NotJson

_LIST_KEYS = ("areas", "focus_areas", "answers")
_NAME_KEYS = ("area", "name", "focus_area", "title")
_TEXT_KEYS = ("answer", "analysis", "content", "text")
_MOST_DEPTH = 20
_VALUE_CHARS = 100_000
"""Length limit for an answer that is not a string."""
_SUMMARY, _CONFIDENCE = "summary", "confidence"
_NUMBERS = "0123456789.):"
_HEADING_START, _HEADING_END = '*#`" ', '*`:" '  # markup of headings
_IGNORED_CHARS = str.maketrans("", "", " \t\n_-")


@dataclass(frozen=True, slots=True)
class AreaAnswer:
    """`area` is spelled as requested; `confidence` is the model's own word, often empty."""

    area: str
    answer: str
    confidence: str = ""


@dataclass(frozen=True, slots=True)
class FocusAreaAnswers:
    """Answers in the requested order, and the areas without an answer."""

    answers: tuple[AreaAnswer, ...]
    missing: tuple[str, ...]
    summary: str = ""


def read_areas(reply: object, wanted: Sequence[str]) -> FocusAreaAnswers:
    """Returns the answers in the order of `wanted`, and the areas without an answer. Other areas are ignored.

    Names are compared without case, spaces and underscores. Raises NotJson for a reply of another shape.
    """
    given: dict[str, AreaAnswer] = {}
    for answer in _parse_answers(reply):
        key = _normalized_name(answer.area)
        for spelled in (key, key.lstrip(_NUMBERS)):  # `1. Performance`
            given.setdefault(spelled, answer)
    names = list(dict.fromkeys(wanted))
    found = [(name, given.get(_normalized_name(name))) for name in names]
    return FocusAreaAnswers(
        tuple(AreaAnswer(name, answer.answer, answer.confidence) for name, answer in found if answer is not None),
        tuple(name for name, answer in found if answer is None),
        _render_value(cast("Mapping[str, object]", reply).get(_SUMMARY)) if isinstance(reply, dict) else "",
    )


def _parse_answers(reply: object) -> Iterator[AreaAnswer]:
    """Yields all answers that are not empty."""
    answers = reply
    if isinstance(reply, dict):
        fields = cast("dict[str, object]", reply)
        answers = next((fields[name] for name in _LIST_KEYS if name in fields), fields)
    if isinstance(answers, list):
        pairs = [("", value) for value in cast("list[object]", answers)]
    elif isinstance(answers, dict):
        pairs = list(cast("dict[str, object]", answers).items())
    else:
        raise NotJson('it is not an object with "areas"')
    for name, value in pairs:
        answer = _parse_answer(name, value)
        if answer.area and answer.answer:
            yield answer


def _parse_answer(name: str, value: object) -> AreaAnswer:
    if not isinstance(value, dict):
        return AreaAnswer(name, _render_value(value))
    fields = cast("dict[str, object]", value)
    text = next((fields[key] for key in _TEXT_KEYS if key in fields), "" if not name else fields)
    area = name or next((_render_value(fields[key]) for key in _NAME_KEYS if key in fields), "")
    return AreaAnswer(area, _render_value(text), _render_value(fields.get(_CONFIDENCE)))


def _render_value(value: object) -> str:
    """Renders a value as text: a list of strings as bullets, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip().encode("utf-8", "replace").decode()
    if isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value)):
        text = "\n".join(f"- {_render_value(each)}" for each in cast("list[str]", value))
    else:
        _check_depth(cast("object", value), _MOST_DEPTH)
        text = json.dumps(cast("Any", value), ensure_ascii=False).encode("utf-8", "replace").decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"


def _check_depth(value: object, left: int) -> None:
    """Raises NotJson if the value is nested too deeply."""
    if isinstance(value, dict):
        inner = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return
    if not left:
        raise NotJson(f"an answer is nested deeper than {_MOST_DEPTH} levels")
    for each in inner:
        _check_depth(each, left - 1)


def _normalized_name(name: str) -> str:
    return name.casefold().lstrip(_HEADING_START).rstrip(_HEADING_END).translate(_IGNORED_CHARS)
