"""Answers that a program reads: the JSON in what the model says, asked for once more where that falls short."""

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
    text: str
    """What the model said."""
    value: T | None
    """What it means; None where it could not be read."""
    problem: str = ""
    """What is wrong with it; empty where nothing is."""
    notes: tuple[str, ...] = ()
    """Why there is no better one."""


def _no_problem(value: object) -> str:
    del value
    return ""


def ask_for_json(
    model_turn: ModelTurn, parse: Callable[[object], T], find_problem: Callable[[T], str] = _no_problem
) -> StructuredReply[T]:
    """Ask, and read the answer by `parse`, which raises NotJson for one of another shape.

    `find_problem` says what one that was read lacks. What cannot be read, or lacks something, is asked for once more;
    where the provider fails then, the first answer is what there is.
    """
    first = _parse_reply(model_turn.ask(), parse, find_problem)
    if not first.problem:
        return first
    try:
        second = _parse_reply(model_turn.follow_up(repair_prompt(first.problem)), parse, find_problem)
    except ProviderError as error:
        return replace(first, notes=(f"There is no second answer in its place: {error}",))
    return second if second.value is not None else first


def _parse_reply(text: str, parse: Callable[[object], T], find_problem: Callable[[T], str]) -> StructuredReply[T]:
    try:
        value = parse(extract_json(text))
    except NotJson as fault:
        return StructuredReply(text, None, fault.reason)
    return StructuredReply(text, value, find_problem(value))
