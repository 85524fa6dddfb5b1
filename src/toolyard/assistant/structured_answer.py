"""Answers that a program reads: the JSON in what the model says, asked for once more where that falls short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from toolyard.assistant.json_extraction import NotJson, json_in
from toolyard.assistant.prompts import repair
from toolyard.assistant.request import Exchange
from toolyard.core.errors import ProviderError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    text: str
    """What the model said."""
    value: T | None
    """What it means; None where it could not be read."""
    lacks: str = ""
    """What is wrong with it; empty where nothing is."""
    notes: tuple[str, ...] = ()
    """Why there is no better one."""


def _nothing(value: object) -> str:
    del value
    return ""


def read_reply(exchange: Exchange, read: Callable[[object], T], lacking: Callable[[T], str] = _nothing) -> Reply[T]:
    """Ask, and read the answer by `read`, which raises NotJson for one of another shape.

    `lacking` says what one that was read lacks. What cannot be read, or lacks something, is asked for once more;
    where the provider fails then, the first answer is what there is.
    """
    first = _reply(exchange.ask(), read, lacking)
    if not first.lacks:
        return first
    try:
        second = _reply(exchange.again(repair(first.lacks)), read, lacking)
    except ProviderError as error:
        return replace(first, notes=(f"There is no second answer in its place: {error}",))
    return second if second.value is not None else first


def _reply(text: str, read: Callable[[object], T], lacking: Callable[[T], str]) -> Reply[T]:
    try:
        value = read(json_in(text))
    except NotJson as fault:
        return Reply(text, None, fault.reason)
    return Reply(text, value, lacking(value))
