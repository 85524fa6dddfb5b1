"""Asks the model for JSON, parses the answer, and asks once more if it is unusable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from toolyard.assistant.json_extraction import NotJson, extract_json
from toolyard.assistant.prompts import repair_prompt
from toolyard.assistant.request import ModelTurn
from toolyard.core.errors import ProviderError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StructuredReply(Generic[T]):
    """A parsed answer of the model."""

    text: str
    """The model's text."""
    value: T | None
    """The parsed value; None if the text could not be parsed."""
    problem: str = ""
    """What is wrong with it; empty if nothing is."""
    notes: tuple[str, ...] = ()
    """Why there is no better answer."""


def _no_problem(value: object) -> str:
    del value
    return ""


def ask_for_json(
    model_turn: ModelTurn, parse: Callable[[object], T], find_problem: Callable[[T], str] = _no_problem
) -> StructuredReply[T]:
    """Asks the model and parses its answer. `parse` raises NotJson for a value of another shape.

    `find_problem` returns what a parsed value lacks. If parsing fails or something is missing, the model is asked
    once more; if the provider fails then, the first answer is returned.
    """
    first = _parse_reply(model_turn.ask(), parse, find_problem)
    if not first.problem:
        return first
    try:
        second = _parse_reply(model_turn.follow_up(repair_prompt(first.problem)), parse, find_problem)
    except ProviderError as error:
        return replace(first, notes=(f"A second attempt failed: {error}",))
    return second if second.value is not None else first


def _parse_reply(text: str, parse: Callable[[object], T], find_problem: Callable[[T], str]) -> StructuredReply[T]:
    try:
        value = parse(extract_json(text))
    except NotJson as fault:
        return StructuredReply(text, None, fault.reason)
    return StructuredReply(text, value, find_problem(value))
