"""Worker for an agent CLI: every round is one CLI run with our tools for the agent's workspace.

Between rounds the CLI keeps only its files and its memory, so the prompt of a round holds the context. An interrupted
round starts over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.core.errors import SystemFault, ToolError
from toolyard.drivers import messages
from toolyard.drivers.messages import Finished, Status, Tokens
from toolyard.drivers.options import DriveOptions
from toolyard.drivers.registry import driver_of
from toolyard.drivers.run import CliRun
from toolyard.models.messages import ModelUsage
from toolyard.team.agent_files import operation_listener
from toolyard.team.budget import BudgetExhausted
from toolyard.team.events import AgentInfo, EndReason, FilesChanged, Notice, TextDelta, ToolCalled, ToolReturned, Used
from toolyard.team.store import AgentState
from toolyard.team.worker import WorkResult, shorten, shorten_arguments

if TYPE_CHECKING:
    from toolyard.drivers.mcp_host import Host
    from toolyard.team.run_context import RunContext

_CallStarts = dict[str, tuple[str, float]]
"""Tool and start time of each call, by call id."""
_ERRORS = {Status.FAILED: ToolError, Status.NOT_ATTACHED: SystemFault}


@dataclass(frozen=True, slots=True)
class CliAgentSetup:
    """How to run the CLI of one agent."""

    cli: str
    options: DriveOptions
    shared_prefix: str = ""


class CliWorker:
    """Worker that runs an agent CLI once a round."""

    def __init__(self, info: AgentInfo, setup: CliAgentSetup, host: Host, context: RunContext) -> None:
        self.info = info
        self._setup = setup
        self._host = host
        self._context = context
        state = context.store.agent(info.id)
        self._spent, self._turns = state.spent, state.turns
        self._snapshot = ""

    @property
    def shared_prefix(self) -> str:
        return self._setup.shared_prefix

    async def work(self, prompt: str, number: int) -> WorkResult:
        context, setup = self._context, self._setup
        context.budget.check()
        self._notify_interrupted_calls(number)
        timeout = min(setup.options.timeout, max(context.budget.seconds_left, 1.0))
        options = replace(setup.options, timeout=timeout)
        calls: _CallStarts = {}
        before = self._spent
        on_operation = operation_listener(self.info.id, context.emit, lambda: number)
        with context.tracing.model_call(self.info.backend, self.info.model) as span:
            async with CliRun(driver_of(setup.cli), prompt, options, self._host, on_operation) as run:
                async for message in run:
                    self._forward_message(message, number, calls, before)
                    if isinstance(message, Finished):
                        ended = message
                        break
                else:
                    raise SystemFault("The run of the CLI ended without a last message.")
            if not ended.succeeded:
                span.mark_failed(ended.status.value)
        return self._finish_round(ended, number, before)

    def _notify_interrupted_calls(self, number: int) -> None:
        """Emits a notice for each call that was running when the run was interrupted: the round starts over."""
        for call in self._context.earlier_calls.get(self.info.id, {}).values():
            if call.round == number and not call.is_finished:
                text = (
                    f"When the run was interrupted, the call of {call.tool} was under way, and may have been carried "
                    "out. The round begins again, and the CLI may run it again."
                )
                self._context.emit(Notice(agent=self.info.id, round=number, text=text))

    def _finish_round(self, ended: Finished, number: int, before: ModelUsage) -> WorkResult:
        context = self._context
        spent = _spent_tokens(ended.tokens, ended.cost)
        context.budget.spend(spent)
        self._spent = before + spent
        self._turns += 1
        context.store.save_agent(self.info.id, AgentState(self._spent, self._turns, number))
        context.emit(Used(agent=self.info.id, round=number, spent=self._spent, turns=self._turns))
        if ended.snapshot:
            self._snapshot = ended.snapshot
            context.emit(
                FilesChanged(
                    agent=self.info.id,
                    round=number,
                    paths=ended.changed,
                    total=len(ended.changed),
                    snapshot=ended.snapshot,
                )
            )
        if ended.status is Status.TIMED_OUT and not context.budget.seconds_left:
            raise BudgetExhausted(EndReason.TIME)
        if not ended.succeeded:
            raise _ERRORS.get(ended.status, ToolError)(ended.reason or "The CLI did not finish.", hint=ended.hint)
        return WorkResult(ended.text, self._snapshot)

    def _forward_message(
        self, message: messages.Message, number: int, calls: _CallStarts, before: ModelUsage
    ) -> None:
        agent, emit = self.info.id, self._context.emit
        match message:
            case messages.TextDelta(text):
                emit(TextDelta(agent=agent, round=number, text=text))
            case messages.ToolCall(call, name, arguments):
                calls[call] = name, time.monotonic()
                emit(
                    ToolCalled(
                        agent=agent, round=number, call=call, tool=name, arguments=shorten_arguments(arguments)
                    )
                )
            case messages.ToolResult():
                tool, began = calls.get(message.id, ("", time.monotonic()))
                seconds = time.monotonic() - began if message.seconds is None else message.seconds
                emit(
                    ToolReturned(
                        agent=agent,
                        round=number,
                        call=message.id,
                        tool=tool,
                        ok=message.ok,
                        text=shorten(message.text),
                        seconds=round(seconds, 3),
                        exit_code=message.exit_code,
                    )
                )
            case messages.Usage(tokens, cost):
                spent = before + _spent_tokens(tokens, cost)
                emit(Used(agent=agent, round=number, spent=spent, turns=self._turns))
            case messages.Fault(message_text, hint):
                emit(Notice(agent=agent, round=number, text=f"{message_text} {hint}".strip()))
            case _:
                pass

    async def close(self) -> None:
        """Does nothing: no resource outlives a round."""


def _spent_tokens(tokens: Tokens, cost: float | None) -> ModelUsage:
    return ModelUsage(tokens.input, tokens.output, tokens.cached, cost)
