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
from toolyard.core.threaded_open import closed_in_thread
from toolyard.models import messages
from toolyard.models.chat_model import ChatModel
from toolyard.models.conversation import Conversation
from toolyard.models.messages import Answer, OfferedTool, Turn
from toolyard.team.agent_files import AgentFiles
from toolyard.team.events import AgentInfo, Notice, Shortened, TextDelta, TextTakenBack, ThinkingDelta, Used, Waiting
from toolyard.team.run_context import Surroundings
from toolyard.team.store import AgentState
from toolyard.team.tool_calls import ToolCalls, cut_off
from toolyard.team.tracing import note_spent
from toolyard.team.worker import Work

if TYPE_CHECKING:
    from toolyard.app.yard import Yard

_ENOUGH = (
    "You have used all the turns of this round. Make no more calls: answer now, in words, with what you have found "
    "and done so far, and say what is left."
)
_NO_MORE_CALLS = "Not carried out: the turns of this round are used up. Answer in words."
_CUT = "[The answer ended here: it reached the longest that the model may write.]"


class ApiWorker:
    def __init__(
        self,
        info: AgentInfo,
        yard: Yard,
        model: ChatModel,
        around: Surroundings,
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
        self._around = around
        self._tools = tuple(
            OfferedTool(tool.name, tool.description, tool.input_schema) for tool in yard.dispatch.tools.values()
        )
        self._files = AgentFiles(yard, around.hear)
        state = around.store.agent(info.id)
        self._spent, self._turns, self._round = state.spent, state.turns, state.round
        self._conversation = Conversation.load(state.conversation) if state.conversation else Conversation()

    @property
    def shared_prefix(self) -> str:
        return self._yard.sharing.prefix if self._yard.sharing is not None else ""

    async def work(self, prompt: str, number: int) -> Work:
        self._files.round = number
        if self._round == number:  # it was interrupted in this very round
            self._answer(list(self._cut_off(number)))
        else:
            self._round = number
            self._conversation.ask(prompt)
            self._keep()
        # Where it had answered already, and was interrupted before that was noted, it is not asked again.
        text = self._conversation.last_text if self._conversation.is_answered else await self._worked(number)
        return Work(text, await self._files.hold(f"answer of round {number}"))

    def _cut_off(self, number: int) -> Iterator[Answer]:
        """What is said to the calls of the last turn, whose results are missing; the user is told of each."""
        earlier = self._around.earlier_calls.get(self.info.id, {})
        for wanted in self._conversation.unanswered:
            answer, notice = cut_off(wanted, earlier.get(wanted.id))
            self._around.hear(Notice(agent=self.info.id, round=number, text=notice))
            yield answer

    async def _worked(self, number: int) -> str:
        limit = self._around.budget.limits.turns
        for _ in range(limit):
            turn = await self._turn(number)
            if not turn.wanted:
                return _text(turn)
            self._answer(await self._calls.answer(turn.wanted, number))
        self._conversation.ask(_ENOUGH)
        turn = await self._turn(number)
        if turn.wanted:
            self._answer([Answer(each, _NO_MORE_CALLS, failed=True) for each in turn.wanted])
        if not turn.text.strip():
            raise ToolError(
                f"The model made calls for {limit} turns without an answer, and made another when asked to stop.",
                hint="Give it a smaller task or another model; `orchestrator.limits.turns` allows more.",
            )
        return _text(turn)

    async def _turn(self, number: int) -> Turn:
        around = self._around
        around.budget.check()
        with around.tracing.model_call(self.info.backend, self.info.model) as span:
            turn = await self._model.turn(
                self._conversation,
                instructions=self._instructions,
                tools=self._tools,
                hear=lambda heard: self._heard(heard, number),
            )
            note_spent(span, turn.spent)
        self._spent += turn.spent
        self._turns += 1
        around.budget.spend(turn.spent)
        self._keep()
        around.hear(Used(agent=self.info.id, round=number, spent=self._spent, turns=self._turns))
        return turn

    def _answer(self, answers: list[Answer]) -> None:
        if answers:
            self._conversation.answer(answers)
            self._keep()

    def _keep(self) -> None:
        state = AgentState(self._spent, self._turns, self._round, self._conversation.dump())
        self._around.store.keep(self.info.id, state)

    def _heard(self, heard: messages.Heard, number: int) -> None:
        agent, hear = self.info.id, self._around.hear
        match heard:
            case messages.Said(text):
                hear(TextDelta(agent=agent, round=number, text=text))
            case messages.Thought(text):
                hear(ThinkingDelta(agent=agent, round=number, text=text))
            case messages.TakenBack():
                hear(TextTakenBack(agent=agent, round=number))
            case messages.Waiting(seconds, why):
                hear(Waiting(agent=agent, round=number, seconds=seconds, why=why))
            case messages.Shortened(before, after):
                hear(Shortened(agent=agent, round=number, before=before, after=after))

    async def close(self) -> None:
        async with AsyncExitStack() as each:
            each.push_async_callback(closed_in_thread, self._yard)
            each.push_async_callback(self._model.close)
        await asyncio.sleep(0)  # what the last snapshots told is heard


def _text(turn: Turn) -> str:
    return f"{turn.text}\n{_CUT}" if turn.is_cut else turn.text
