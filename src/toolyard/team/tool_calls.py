"""Runs the tool calls of one turn through the workspace's dispatch, and returns the answers for the model.

An error is an answer that the model can act on: an unknown tool, arguments that are not JSON, a refusal. Read-only
calls run concurrently, others in the order of the model. A repeated call with the same result is pointed out to the
model.
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

from toolyard.core.calls import ApprovalCallback, Call, Image, Result, exit_code_of
from toolyard.core.errors import ToolyardError
from toolyard.models.messages import ModelToolCall, ModelToolResult, Picture
from toolyard.team.events import ToolCalled, ToolReturned
from toolyard.team.worker import shorten, shorten_arguments

if TYPE_CHECKING:
    from toolyard.app.yard import Yard
    from toolyard.team.log import EarlierCall
    from toolyard.team.run_context import RunContext

SURFACE = "run"
_REPEAT_NOTE_AFTER = 3
"""Number of equal calls with equal results before the model gets a note."""
_MAX_CALLS_PER_TURN = 100
"""Calls beyond this number are not made."""
_TOO_MANY = f"Not carried out: only the first {_MAX_CALLS_PER_TURN} calls of a turn are. Make fewer of them at once."
_NOT_BEGUN = "The run was interrupted before this call. It was not carried out: make it again if you still need it."
_UNDER_WAY = "The run was interrupted during this call. It may have been carried out: look before you do it again."
_RESULT_LOST = (
    "The run was interrupted after this call, and its result was lost. "
    "It was carried out: look before you do it again."
)


def interrupted_answer(wanted: ModelToolCall, earlier: EarlierCall | None) -> tuple[ModelToolResult, str]:
    """Returns the answer and the user's notice for a call that was interrupted.

    Such a call is never repeated here: only the model knows whether that is right.
    """
    if earlier is None:
        state, text = "was not begun", _NOT_BEGUN
    elif earlier.is_finished:
        state, text = "was carried out, and its result was lost", _RESULT_LOST
    else:
        state, text = "was under way, and may have been carried out", _UNDER_WAY
    notice = f"When the run was interrupted, the call of {wanted.tool} {state}. It was not run again."
    return ModelToolResult(wanted, text, failed=True), notice


class ToolCalls:
    """Runs the tool calls of one agent."""

    def __init__(self, agent: str, yard: Yard, ask: ApprovalCallback, context: RunContext) -> None:
        self._agent = agent
        self._yard = yard
        self._ask = ask
        self._context = context
        self._call_counts: Counter[bytes] = Counter()

    async def answer_calls(self, wanted: Sequence[ModelToolCall], number: int) -> list[ModelToolResult]:
        """Runs all calls and returns their answers. Cancelling stops the running ones."""
        if len(wanted) > _MAX_CALLS_PER_TURN:
            skipped = [ModelToolResult(each, _TOO_MANY, failed=True) for each in wanted[_MAX_CALLS_PER_TURN:]]
            return [*await self.answer_calls(wanted[:_MAX_CALLS_PER_TURN], number), *skipped]
        if len(wanted) > 1 and all(self._only_reads(each) for each in wanted):
            return list(await asyncio.gather(*(self._answer_call(each, number) for each in wanted)))
        return [await self._answer_call(each, number) for each in wanted]

    def _only_reads(self, wanted: ModelToolCall) -> bool:
        tool = self._yard.dispatch.tools.get(wanted.tool)
        return tool is not None and tool.read_only

    async def _answer_call(self, wanted: ModelToolCall, number: int) -> ModelToolResult:
        common: Mapping[str, Any] = {"agent": self._agent, "round": number, "call": wanted.id, "tool": wanted.tool}
        self._context.emit(ToolCalled(**common, arguments=shorten_arguments(dict(wanted.arguments))))
        began = time.monotonic()
        tool_name = (
            wanted.tool if wanted.tool in self._yard.dispatch.tools else "unknown"
        )  # the model may write any name
        with self._context.tracing.tool_call(tool_name, wanted.id) as span:
            answer, exit_code = await self._run_call(wanted)
            if answer.failed:
                span.mark_failed("The call failed.")
        seconds = round(time.monotonic() - began, 3)
        text = shorten(answer.text)
        self._context.emit(
            ToolReturned(**common, ok=not answer.failed, text=text, seconds=seconds, exit_code=exit_code)
        )
        return self._with_repeat_note(answer)

    async def _run_call(self, wanted: ModelToolCall) -> tuple[ModelToolResult, int | None]:
        """Runs a call; returns the answer and the exit code of a command."""
        if wanted.arguments_error:
            return ModelToolResult(
                wanted, f"The arguments could not be read: {wanted.arguments_error}", failed=True
            ), None
        call = Call(
            wanted.tool,
            dict(wanted.arguments),
            surface=SURFACE,
            agent=self._agent,
            session=self._context.run,
            ask=self._ask,
        )
        try:
            # Handing a quick call to a thread takes longer than the call.
            result = self._yard.dispatch.try_run_inline(call) or await self._yard.dispatch(call)
        except ToolyardError as error:
            return ModelToolResult(wanted, str(error), failed=True), None
        answer = ModelToolResult(wanted, result.text or "(no content)", _pictures(result), failed=result.failed)
        return answer, exit_code_of(result.structured)

    def _with_repeat_note(self, answer: ModelToolResult) -> ModelToolResult:
        mark = json.dumps([answer.call.tool, dict(answer.call.arguments), answer.text], sort_keys=True, default=str)
        key = hashlib.blake2b(mark.encode("utf-8", "replace"), digest_size=16).digest()
        self._call_counts[key] += 1
        times = self._call_counts[key]
        if times < _REPEAT_NOTE_AFTER:
            return answer
        note = f"[You have made this call {times} times now, with the same result. Do something else, or answer.]"
        return replace(answer, text=f"{answer.text}\n{note}")


def _pictures(result: Result) -> tuple[Picture, ...]:
    return tuple(Picture(part.data, part.media_type) for part in result.parts if isinstance(part, Image))
