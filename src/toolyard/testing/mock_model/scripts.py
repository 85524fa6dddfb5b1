"""Who decides what a model does: a script is a function from a request to a step. Here are the usual ones.

`in_turns(*steps)` plays steps one after another in each conversation that it answers; `by_model` and `by_marker`
choose between scripts, and they nest. The same request gets the same answer however often it comes, also after who
asks was started again: which answer is due follows from the turns that the request holds. Only faults are used up:
those that stand before an answer happen to the first attempts at it, counted apart for each conversation and turn.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from toolyard.testing.mock_model.requests import Request
from toolyard.testing.mock_model.steps import (
    DONE,
    Answering,
    BrokenArguments,
    Call,
    Fault,
    Say,
    Step,
    Think,
    TooLong,
    Turn,
)

Script: TypeAlias = Callable[[Request], Step]
Scripted: TypeAlias = Script | Step | Sequence[Step]
"""What may stand where a script is wanted: a step alone, and several, mean `in_turns`."""
_ANSWERS = (Turn, Say, Think, Call, BrokenArguments)


def as_script(scripted: Scripted) -> Script:
    if callable(scripted):
        return scripted
    return in_turns(*scripted) if isinstance(scripted, Sequence) else in_turns(scripted)


def in_turns(*steps: Step, then: Answering = DONE) -> Script:
    """The steps in order, and `then` for ever."""
    return _InTurns(steps, then)


def by_model(scripts: Mapping[str, Scripted], otherwise: Scripted = DONE) -> Script:
    """By the name of the model: each agent of a team has one of its own."""
    known, rest = {name: as_script(each) for name, each in scripts.items()}, as_script(otherwise)
    return lambda request: known.get(request.model, rest)(request)


def by_marker(scripts: Mapping[str, Scripted], otherwise: Scripted = DONE) -> Script:
    """By the first of the texts that is in the system prompt or in what the user said."""
    known, rest = {marker: as_script(each) for marker, each in scripts.items()}, as_script(otherwise)

    def chosen(request: Request) -> Step:
        seen = "\0".join((request.system, *request.users))
        return next((script for marker, script in known.items() if marker in seen), rest)(request)

    return chosen


def within(tokens: int, scripted: Scripted) -> Script:
    """A script of a model whose context holds so many tokens, by estimate: it refuses whatever is longer."""
    script = as_script(scripted)
    return lambda request: TooLong(tokens, request.tokens) if request.tokens > tokens else script(request)


class _InTurns:
    def __init__(self, steps: Sequence[Step], then: Answering) -> None:
        self._answers: list[Answering] = []
        self._faults: list[list[Fault]] = [[]]
        for step in steps:
            if isinstance(step, _ANSWERS):
                self._answers.append(step)
                self._faults.append([])
            else:
                self._faults[-1].append(step)
        self._then = then
        self._tried: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Step:
        turn = request.turn
        fault = self._fault(request) if turn < len(self._faults) and self._faults[turn] else None
        if fault is not None:
            return fault
        return self._answers[turn] if turn < len(self._answers) else self._then

    def _fault(self, request: Request) -> Fault | None:
        tried = (request.conversation.identity, request.turn)
        with self._lock:
            before = self._tried[tried]
            self._tried[tried] += 1
        for fault in self._faults[request.turn]:
            if before < fault.times:
                return fault
            before -= fault.times
        return None
