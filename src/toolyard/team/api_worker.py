"""An agent on a model API: turns of the model, and between them the calls that it asks for.

An ApiWorker owns its open workspace, its model and its conversation, which goes on from round to round. Each turn
and the results of its calls are kept as soon as they are there: a run that is resumed goes on in the middle of a
round. The loop is bounded: by the turns of one round, by the budget of the run, and by the model's own context.
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
        """In the run's loop."""
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
        if self._round == number:  # it was interrupted in this very round
            self._add_answers(list(self._interrupted_answers(number)))
        else:
            self._round = number
            self._conversation.add_question(prompt)
            self._save_state()
        # Where it had answered already, and was interrupted before that was noted, it is not asked again.
        text = self._conversation.last_text if self._conversation.is_complete else await self._run_turns(number)
        return WorkResult(text, await self._files.take_snapshot(f"answer of round {number}"))

    def _interrupted_answers(self, number: int) -> Iterator[ModelToolResult]:
        """What is said to the calls of the last turn, whose results are missing; the user is told of each."""
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
        around = self._context
        around.budget.check()
        with around.tracing.model_call(self.info.backend, self.info.model) as span:
            turn = await self._model.turn(
                self._conversation,
                instructions=self._instructions,
                tools=self._tools,
                on_event=lambda heard: self._forward_event(heard, number),
            )
            record_usage(span, turn.usage)
        self._spent += turn.usage
        self._turns += 1
        around.budget.spend(turn.usage)
        self._save_state()
        around.emit(Used(agent=self.info.id, round=number, spent=self._spent, turns=self._turns))
        return turn

    def _add_answers(self, answers: list[ModelToolResult]) -> None:
        if answers:
            self._conversation.add_tool_results(answers)
            self._save_state()

    def _save_state(self) -> None:
        state = AgentState(self._spent, self._turns, self._round, self._conversation.dump())
        self._context.store.save_agent(self.info.id, state)

    def _forward_event(self, heard: messages.StreamEvent, number: int) -> None:
        agent, hear = self.info.id, self._context.emit
        match heard:
            case messages.TextDelta(text):
                hear(TextDelta(agent=agent, round=number, text=text))
            case messages.ThinkingDelta(text):
                hear(ThinkingDelta(agent=agent, round=number, text=text))
            case messages.DeltasDiscarded():
                hear(TextTakenBack(agent=agent, round=number))
            case messages.RetryWait(seconds, why):
                hear(Waiting(agent=agent, round=number, seconds=seconds, why=why))
            case messages.ConversationCompacted(before, after):
                hear(Shortened(agent=agent, round=number, before=before, after=after))

    async def close(self) -> None:
        async with AsyncExitStack() as each:
            each.push_async_callback(close_in_thread, self._yard)
            each.push_async_callback(self._model.close)
        await asyncio.sleep(0)  # what the last snapshots told is heard


def _turn_text(turn: TurnResult) -> str:
    return f"{turn.text}\n{_CUT_NOTE}" if turn.is_truncated else turn.text
