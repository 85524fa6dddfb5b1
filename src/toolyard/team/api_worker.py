"""Worker for an agent on a model API: model turns, and the tool calls between them.

ApiWorker owns its open workspace, its model and its conversation, which continues from round to round. Every turn and
its call results are saved immediately, so a resumed run continues in the middle of a round. The loop is bounded by
the turns of a round, the budget of the run and the context of the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from toolyard.core.errors import ToolError
from toolyard.core.threaded_open import close_in_thread
from toolyard.models import messages
from toolyard.models.chat_model import ChatModel
from toolyard.models.conversation import Conversation
from toolyard.models.messages import ModelToolResult, OfferedTool, TurnResult
from toolyard.team.agent_files import AgentFiles
from toolyard.team.events import AgentInfo, Notice, Shortened, TextDelta, TextTakenBack, ThinkingDelta, Used, Waiting
from toolyard.team.run_context import RunContext
from toolyard.team.store import AgentState
from toolyard.team.tool_calls import ToolCalls, interrupted_answer
from toolyard.team.tracing import record_usage
from toolyard.team.worker import WorkResult

if TYPE_CHECKING:
    from toolyard.app.yard import Yard

_STOP_CALLING = (
    "You have used all the turns of this round. Make no more calls: answer now, in words, with what you have found "
    "and done so far, and say what is left."
)
_NO_MORE_CALLS = "Not carried out: the turns of this round are used up. Answer in words."
_CUT_NOTE = "[The answer ended here: it reached the longest that the model may write.]"


class ApiWorker:
    """Worker that calls a model API in a loop until the model answers without tool calls."""

    def __init__(
        self,
        info: AgentInfo,
        yard: Yard,
        model: ChatModel,
        context: RunContext,
        *,
        instructions: str,
        calls: ToolCalls,
    ) -> None:
        """Must be created on the run's event loop."""
        self.info = info
        self._yard = yard
        self._model = model
        self._instructions = instructions
        self._calls = calls
        self._context = context
        self._tools = tuple(
            OfferedTool(tool.name, tool.description, tool.input_schema) for tool in yard.dispatch.tools.values()
        )
        self._files = AgentFiles(yard, context.emit)
        state = context.store.agent(info.id)
        self._spent, self._turns, self._round = state.spent, state.turns, state.round
        self._conversation = Conversation.load(state.conversation) if state.conversation else Conversation()

    @property
    def shared_prefix(self) -> str:
        return self._yard.sharing.prefix if self._yard.sharing is not None else ""

    async def work(self, prompt: str, number: int) -> WorkResult:
        self._files.round = number
        if self._round == number:  # the run was interrupted in this round
            self._add_answers(list(self._interrupted_answers(number)))
        else:
            self._round = number
            self._conversation.add_question(prompt)
            self._save_state()
        # It may have answered just before the interruption: then the model is not asked again.
        text = self._conversation.last_text if self._conversation.is_complete else await self._run_turns(number)
        return WorkResult(text, await self._files.take_snapshot(f"answer of round {number}"))

    def _interrupted_answers(self, number: int) -> Iterator[ModelToolResult]:
        """Yields an answer for each call whose result is missing, and emits a notice about each."""
        earlier = self._context.earlier_calls.get(self.info.id, {})
        for wanted in self._conversation.pending_calls:
            answer, notice = interrupted_answer(wanted, earlier.get(wanted.id))
            self._context.emit(Notice(agent=self.info.id, round=number, text=notice))
            yield answer

    async def _run_turns(self, number: int) -> str:
        limit = self._context.budget.limits.turns
        for _ in range(limit):
            turn = await self._run_turn(number)
            if not turn.tool_calls:
                return _turn_text(turn)
            self._add_answers(await self._calls.answer_calls(turn.tool_calls, number))
        self._conversation.add_question(_STOP_CALLING)
        turn = await self._run_turn(number)
        if turn.tool_calls:
            self._add_answers([ModelToolResult(each, _NO_MORE_CALLS, failed=True) for each in turn.tool_calls])
        if not turn.text.strip():
            raise ToolError(
                f"The model made calls for {limit} turns without an answer, and made another when asked to stop.",
                hint="Give it a smaller task or another model; `orchestrator.limits.turns` allows more.",
            )
        return _turn_text(turn)

    async def _run_turn(self, number: int) -> TurnResult:
        context = self._context
        context.budget.check()
        with context.tracing.model_call(self.info.backend, self.info.model) as span:
            turn = await self._model.turn(
                self._conversation,
                instructions=self._instructions,
                tools=self._tools,
                on_event=lambda event: self._forward_event(event, number),
            )
            record_usage(span, turn.usage)
        self._spent += turn.usage
        self._turns += 1
        context.budget.spend(turn.usage)
        self._save_state()
        context.emit(Used(agent=self.info.id, round=number, spent=self._spent, turns=self._turns))
        return turn

    def _add_answers(self, answers: list[ModelToolResult]) -> None:
        if answers:
            self._conversation.add_tool_results(answers)
            self._save_state()

    def _save_state(self) -> None:
        state = AgentState(self._spent, self._turns, self._round, self._conversation.dump())
        self._context.store.save_agent(self.info.id, state)

    def _forward_event(self, event: messages.StreamEvent, number: int) -> None:
        agent, emit = self.info.id, self._context.emit
        match event:
            case messages.TextDelta(text):
                emit(TextDelta(agent=agent, round=number, text=text))
            case messages.ThinkingDelta(text):
                emit(ThinkingDelta(agent=agent, round=number, text=text))
            case messages.DeltasDiscarded():
                emit(TextTakenBack(agent=agent, round=number))
            case messages.RetryWait(seconds, why):
                emit(Waiting(agent=agent, round=number, seconds=seconds, why=why))
            case messages.ConversationCompacted(before, after):
                emit(Shortened(agent=agent, round=number, before=before, after=after))

    async def close(self) -> None:
        async with AsyncExitStack() as each:
            each.push_async_callback(close_in_thread, self._yard)
            each.push_async_callback(self._model.close)
        await asyncio.sleep(0)  # lets the callbacks of the last snapshots run


def _turn_text(turn: TurnResult) -> str:
    return f"{turn.text}\n{_CUT_NOTE}" if turn.is_truncated else turn.text
