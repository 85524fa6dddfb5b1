"""Scripts, which decide what the model does: functions from a request to a step.

`in_turns(*steps)` plays steps one after another in each conversation; `by_model` and `by_marker` choose between
scripts and can be nested. The turns in a request determine its answer, so a repeated request gets the same answer,
even after the client restarted. Faults are consumed: those before an answer happen to the first attempts at it,
counted for each conversation and turn.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from toolyard.testing.mock_model.requests import Request
from toolyard.testing.mock_model.steps import (
    DONE,
    AnswerStep,
    BrokenArguments,
    Call,
    FaultStep,
    Say,
    Step,
    Think,
    TooLong,
    Turn,
)

Script: TypeAlias = Callable[[Request], Step]
ScriptLike: TypeAlias = Script | Step | Sequence[Step]
"""Accepted where a script is expected: one step or several mean `in_turns`."""
_ANSWER_TYPES = (Turn, Say, Think, Call, BrokenArguments)


def as_script(script: ScriptLike) -> Script:
    """Returns the script for a step, a list of steps or a script."""
    if callable(script):
        return script
    return in_turns(*script) if isinstance(script, Sequence) else in_turns(script)


def in_turns(*steps: Step, then: AnswerStep = DONE) -> Script:
    """Returns a script that plays the steps in order and then repeats `then`."""
    return _StepScript(steps, then)


def by_model(scripts: Mapping[str, ScriptLike], otherwise: ScriptLike = DONE) -> Script:
    """Returns a script that chooses by the model's name, for example one for each agent of a team."""
    known, rest = {name: as_script(each) for name, each in scripts.items()}, as_script(otherwise)
    return lambda request: known.get(request.model, rest)(request)


def by_marker(scripts: Mapping[str, ScriptLike], otherwise: ScriptLike = DONE) -> Script:
    """Returns a script that chooses by the first marker found in the system prompt or in a text of the user."""
    known, rest = {marker: as_script(each) for marker, each in scripts.items()}, as_script(otherwise)

    def choose_step(request: Request) -> Step:
        seen = "\0".join((request.system, *request.user_texts))
        return next((script for marker, script in known.items() if marker in seen), rest)(request)

    return choose_step


def with_context_limit(tokens: int, script_like: ScriptLike) -> Script:
    """Returns a script that refuses requests of more than `tokens` tokens, by estimate."""
    script = as_script(script_like)
    return lambda request: TooLong(tokens, request.tokens) if request.tokens > tokens else script(request)


class _StepScript:
    def __init__(self, steps: Sequence[Step], then: AnswerStep) -> None:
        self._answers: list[AnswerStep] = []
        self._faults: list[list[FaultStep]] = [[]]
        for step in steps:
            if isinstance(step, _ANSWER_TYPES):
                self._answers.append(step)
                self._faults.append([])
            else:
                self._faults[-1].append(step)
        self._then = then
        self._attempts: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Step:
        turn = request.turn
        fault = self._next_fault(request) if turn < len(self._faults) and self._faults[turn] else None
        if fault is not None:
            return fault
        return self._answers[turn] if turn < len(self._answers) else self._then

    def _next_fault(self, request: Request) -> FaultStep | None:
        tried = (request.conversation.identity, request.turn)
        with self._lock:
            before = self._attempts[tried]
            self._attempts[tried] += 1
        for fault in self._faults[request.turn]:
            if before < fault.times:
                return fault
            before -= fault.times
        return None
