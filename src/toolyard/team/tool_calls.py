"""The calls of one turn, made through the workspace's dispatch, as the model is to be shown them.

Whatever goes wrong with a call is an answer to the model, which can do something about it: a tool that does not
exist, arguments that are no JSON, a refusal. Calls that only read are made at once; the others in the order in which
the model asked for them. The same call with the same result, again and again, is pointed out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolyard.core.calls import Asker, Call, Image, Result, exit_code_of
from toolyard.core.errors import ToolyardError
from toolyard.models.messages import Answer, Picture, Wanted
from toolyard.team.events import ToolCalled, ToolReturned
from toolyard.team.worker import shown, shown_arguments

if TYPE_CHECKING:
    from toolyard.app.yard import Yard
    from toolyard.team.log import EarlierCall
    from toolyard.team.run_context import Surroundings

SURFACE = "run"
_TELL_AFTER = 3
"""How often a call may be made with the same result before that is pointed out."""
_MOST_AT_ONCE = 100
"""Calls of one turn that are made."""
_TOO_MANY = f"Not carried out: only the first {_MOST_AT_ONCE} calls of a turn are. Make fewer of them at once."
_NOT_BEGUN = "The run was interrupted before this call. It was not carried out: make it again if you still need it."
_UNDER_WAY = "The run was interrupted during this call. It may have been carried out: look before you do it again."
_RESULT_LOST = (
    "The run was interrupted after this call, and its result was lost. "
    "It was carried out: look before you do it again."
)


def cut_off(wanted: Wanted, earlier: EarlierCall | None) -> tuple[Answer, str]:
    """What the model is answered to a call that an interrupted run was cut off at, and what the user is told of it.

    None of them is made again by us: only the model can tell whether that is right.
    """
    if earlier is None:
        told, text = "was not begun", _NOT_BEGUN
    elif earlier.is_finished:
        told, text = "was carried out, and its result was lost", _RESULT_LOST
    else:
        told, text = "was under way, and may have been carried out", _UNDER_WAY
    notice = f"When the run was interrupted, the call of {wanted.tool} {told}. It was not run again."
    return Answer(wanted, text, failed=True), notice


class ToolCalls:
    def __init__(self, agent: str, yard: Yard, ask: Asker, around: Surroundings) -> None:
        self._agent = agent
        self._yard = yard
        self._ask = ask
        self._around = around
        self._seen: Counter[bytes] = Counter()

    async def answer(self, wanted: Sequence[Wanted], number: int) -> list[Answer]:
        """Make them all. Cancelling stops what is under way."""
        if len(wanted) > _MOST_AT_ONCE:
            left = [Answer(each, _TOO_MANY, failed=True) for each in wanted[_MOST_AT_ONCE:]]
            return [*await self.answer(wanted[:_MOST_AT_ONCE], number), *left]
        if len(wanted) > 1 and all(self._only_reads(each) for each in wanted):
            return list(await asyncio.gather(*(self._answered(each, number) for each in wanted)))
        return [await self._answered(each, number) for each in wanted]

    def _only_reads(self, wanted: Wanted) -> bool:
        tool = self._yard.dispatch.tools.get(wanted.tool)
        return tool is not None and tool.read_only

    async def _answered(self, wanted: Wanted, number: int) -> Answer:
        common: Mapping[str, Any] = {"agent": self._agent, "round": number, "call": wanted.id, "tool": wanted.tool}
        self._around.hear(ToolCalled(**common, arguments=shown_arguments(dict(wanted.arguments))))
        began = time.monotonic()
        known = (
            wanted.tool if wanted.tool in self._yard.dispatch.tools else "unknown"
        )  # anything may be written there
        with self._around.tracing.tool_call(known, wanted.id) as span:
            answer, exit_code = await self._made(wanted)
            if answer.failed:
                span.failed("The call failed.")
        seconds = round(time.monotonic() - began, 3)
        text = shown(answer.text)
        self._around.hear(
            ToolReturned(**common, ok=not answer.failed, text=text, seconds=seconds, exit_code=exit_code)
        )
        return self._minding_repeats(answer)

    async def _made(self, wanted: Wanted) -> tuple[Answer, int | None]:
        """What the model is shown, and the exit code of a command."""
        if wanted.fault:
            return Answer(wanted, f"The arguments could not be read: {wanted.fault}", failed=True), None
        call = Call(
            wanted.tool,
            dict(wanted.arguments),
            surface=SURFACE,
            agent=self._agent,
            session=self._around.run,
            ask=self._ask,
        )
        try:
            # What is quick would wait longer for a thread than it takes.
            result = self._yard.dispatch.now(call) or await self._yard.dispatch(call)
        except ToolyardError as error:
            return Answer(wanted, str(error), failed=True), None
        answer = Answer(wanted, result.text or "(no content)", _pictures(result), failed=result.failed)
        return answer, exit_code_of(result.structured)

    def _minding_repeats(self, answer: Answer) -> Answer:
        mark = json.dumps(
            [answer.wanted.tool, dict(answer.wanted.arguments), answer.text], sort_keys=True, default=str
        )
        key = hashlib.blake2b(mark.encode("utf-8", "replace"), digest_size=16).digest()
        self._seen[key] += 1
        times = self._seen[key]
        if times < _TELL_AFTER:
            return answer
        note = f"[You have made this call {times} times now, with the same result. Do something else, or answer.]"
        return replace(answer, text=f"{answer.text}\n{note}")


def _pictures(result: Result) -> tuple[Picture, ...]:
    return tuple(Picture(part.data, part.media_type) for part in result.parts if isinstance(part, Image))
