"""Runs the rounds: every agent answers the task, sees the other answers, and votes or improves.

In the first round all agents work on the task. In each later round an agent sees the current answers, and either
answers again or votes. The run reaches consensus when all agents have voted and none had a better answer. An agent
that fails drops out; the others continue. A result is saved before its event is emitted, so a resumed run does not
repeat it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.team.budget import BudgetExhausted
from toolyard.team.events import AgentFailed, AgentStarted, Answered, EndReason, Notice, RoundStarted, Voted
from toolyard.team.prompts import PeerAnswer, first_prompt, later_prompt
from toolyard.team.run_context import RunContext
from toolyard.team.store import ANSWERED, FAILED, VOTED, RoundResult, StateFault
from toolyard.team.votes import parse_vote
from toolyard.team.worker import Worker

_BUG_HINT = "This is a bug in Toolyard, not an error of the agent: please report it."


@dataclass(frozen=True, slots=True)
class TeamOutcome:
    """The result of the rounds."""

    ended: EndReason
    winner: str = ""
    text: str = ""
    snapshot: str = ""
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
    rounds: int = 0


class Rounds:
    """Runs the workers of a team round by round."""

    def __init__(self, task: str, workers: Sequence[Worker], context: RunContext) -> None:
        """Loads the results of this run from the store. Agents that failed before get another chance."""
        self._task = task
        self._workers = {worker.info.id: worker for worker in workers}
        self._context = context
        self._answers: dict[str, RoundResult] = {}
        self._failed_agents: set[str] = set()
        self._results: dict[tuple[int, str], RoundResult] = {}
        for done in context.store.all_results():
            if done.kind != FAILED:
                self._apply_result(done)

    async def run(self) -> TeamOutcome:
        """Runs until the end or until the budget is exhausted. If cancelled, `outcome` returns the current state."""
        try:
            async with asyncio.timeout(self._context.budget.seconds_left):
                for number in range(1, self._context.budget.limits.rounds + 1):
                    ended = await self._run_round(number)
                    if ended is not None:
                        return self.outcome(ended)
        except TimeoutError:
            return self.outcome(EndReason.TIME)
        except BudgetExhausted as used_up:
            return self.outcome(used_up.ended)
        return self.outcome(EndReason.ROUNDS)

    async def _run_round(self, number: int) -> EndReason | None:
        """Runs one round; returns why the run ends, or None."""
        alive = [
            agent for agent in self._workers if agent not in self._failed_agents or (number, agent) in self._results
        ]
        missing = [agent for agent in alive if (number, agent) not in self._results]
        if missing:
            self._context.emit(RoundStarted(round=number, agents=tuple(alive)))
            standing = dict(self._answers)  # agents see the answers of this round only in the next
            async with asyncio.TaskGroup() as together:
                works = [together.create_task(self._run_agent(agent, number, standing)) for agent in missing]
            for work in works:
                if (used_up := work.result()) is not None:
                    raise used_up
        return self._end_reason(number)

    def _end_reason(self, number: int) -> EndReason | None:
        alive = [agent for agent in self._workers if agent not in self._failed_agents]
        if not self._answers:
            return EndReason.FAILED
        if not alive or len(self._workers) == 1 or (len(alive) == 1 and [*self._answers] == alive):
            return EndReason.ANSWERED
        votes = self._votes(number)
        everybody_voted = all(
            (number, agent) in self._results and self._results[number, agent].kind == VOTED for agent in alive
        )
        return EndReason.CONSENSUS if everybody_voted and votes else None

    async def _run_agent(
        self, agent: str, number: int, standing: Mapping[str, RoundResult]
    ) -> BudgetExhausted | None:
        """Runs one agent in a round; returns the exception that ends the run, or None."""
        try:
            await self._run_worker(agent, number, standing)
        except BudgetExhausted as used_up:
            return used_up
        except StateFault as fault:
            # Work that cannot be saved is wasted. The saved part can be resumed once there is space.
            self._context.emit(Notice(agent=agent, round=number, text=str(fault)))
            return BudgetExhausted(EndReason.INTERRUPTED)
        return None

    async def _run_worker(self, agent: str, number: int, standing: Mapping[str, RoundResult]) -> None:
        """Runs the worker and saves its result. An error of one agent does not affect the others."""
        context = self._context
        context.emit(AgentStarted(agent=agent, round=number))
        try:
            with context.tracing.work(agent, number):
                worker = self._workers[agent]
                work = await worker.work(self._prompt(worker, number, standing), number)
        except (BudgetExhausted, StateFault):
            raise
        except ToolyardError as error:
            self._fail(agent, number, error)
        except Exception as error:  # noqa: BLE001 - the edge of an agent: the team continues without it
            self._fail(agent, number, SystemFault(f"{type(error).__name__}: {error}", hint=_BUG_HINT))
        else:
            vote = parse_vote(work.text, [*standing]) if standing else None
            if vote is not None:
                self._finish(RoundResult(number, agent, VOTED, vote.why, work.snapshot, vote.choice))
                context.emit(Voted(agent=agent, round=number, choice=vote.choice, why=vote.why))
            else:
                self._finish(RoundResult(number, agent, ANSWERED, work.text, work.snapshot))
                context.emit(Answered(agent=agent, round=number, text=work.text, snapshot=work.snapshot))

    def _prompt(self, worker: Worker, number: int, standing: Mapping[str, RoundResult]) -> str:
        if number == 1 or not standing:
            return first_prompt(self._task)
        own = worker.info.id
        prefix = worker.shared_prefix
        answers = [
            PeerAnswer(
                agent,
                done.text,
                f"{prefix}/{folder_name(agent)}" if prefix and done.snapshot and agent != own else "",
            )
            for agent, done in standing.items()
        ]
        return later_prompt(self._task, answers, own)

    def _fail(self, agent: str, number: int, error: ToolyardError) -> None:
        self._finish(RoundResult(number, agent, FAILED, str(error)))
        self._context.emit(AgentFailed(agent=agent, round=number, why=error.message, hint=error.hint))

    def _finish(self, result: RoundResult) -> None:
        self._context.store.set_facts(seconds=self._context.budget.seconds)
        self._context.store.save_result(result)
        self._apply_result(result)

    def _apply_result(self, result: RoundResult) -> None:
        self._results[result.round, result.agent] = result
        if result.kind == ANSWERED:
            self._answers[result.agent] = result
        elif result.kind == FAILED:
            self._failed_agents.add(result.agent)

    def _votes(self, number: int) -> dict[str, str]:
        """Returns the votes of a round, without votes for unknown agents."""
        return {
            done.agent: done.choice
            for (when, _), done in self._results.items()
            if when == number and done.kind == VOTED and done.choice in self._answers
        }

    def outcome(self, ended: EndReason) -> TeamOutcome:
        """Returns the current outcome with the given reason."""
        rounds = max((number for number, _ in self._results), default=0)
        votes = self._votes(rounds)
        in_order = [agent for agent in self._workers if agent in self._answers]
        if not in_order:
            return TeamOutcome(ended if ended is not EndReason.ROUNDS else EndReason.FAILED, rounds=rounds)
        count = Counter(votes.values())
        winner = max(in_order, key=lambda agent: count[agent])  # the first in the configuration wins a tie
        done = self._answers[winner]
        return TeamOutcome(ended, winner, done.text, done.snapshot, votes, rounds)
