"""Rounds: every agent answers the task, sees what the others have come to, and votes for the best or does better.

In the first round all work on the task. In each one after it an agent is shown the answers that stand, and either
answers anew or votes. When everybody has voted and nobody had something better, that is the consensus. An agent that
fails is out; the others go on. What is finished is in the store before it is told, and a run that is resumed does not
do it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.team.budget import UsedUp
from toolyard.team.events import AgentFailed, AgentStarted, Answered, Ended, Notice, RoundStarted, Voted
from toolyard.team.prompts import PeerAnswer, first_prompt, later_prompt
from toolyard.team.run_context import Surroundings
from toolyard.team.store import ANSWERED, FAILED, VOTED, Done, StateFault
from toolyard.team.votes import parse_vote
from toolyard.team.worker import Worker

_REPORT = "This is an error in Toolyard, not of the agent's: please report it."


@dataclass(frozen=True, slots=True)
class Outcome:
    ended: Ended
    winner: str = ""
    text: str = ""
    snapshot: str = ""
    votes: Mapping[str, str] = field(default_factory=dict[str, str])
    rounds: int = 0


class Rounds:
    def __init__(self, task: str, workers: Sequence[Worker], around: Surroundings) -> None:
        """Takes up what the store knows of this run. Who failed before has another chance."""
        self._task = task
        self._workers = {worker.info.id: worker for worker in workers}
        self._around = around
        self._answers: dict[str, Done] = {}
        self._failed: set[str] = set()
        self._done: dict[tuple[int, str], Done] = {}
        for done in around.store.all_done():
            if done.kind != FAILED:
                self._take(done)

    async def run(self) -> Outcome:
        """To the end, or until the budget is used up. Cancelled, what is finished stands: see `outcome`."""
        try:
            async with asyncio.timeout(self._around.budget.seconds_left):
                for number in range(1, self._around.budget.limits.rounds + 1):
                    ended = await self._round(number)
                    if ended is not None:
                        return self.outcome(ended)
        except TimeoutError:
            return self.outcome(Ended.TIME)
        except UsedUp as used_up:
            return self.outcome(used_up.ended)
        return self.outcome(Ended.ROUNDS)

    async def _round(self, number: int) -> Ended | None:
        """One round; why the run is over, if it is."""
        alive = [agent for agent in self._workers if agent not in self._failed or (number, agent) in self._done]
        missing = [agent for agent in alive if (number, agent) not in self._done]
        if missing:
            self._around.hear(RoundStarted(round=number, agents=tuple(alive)))
            standing = dict(self._answers)  # nobody sees what is answered in this round before the next
            async with asyncio.TaskGroup() as together:
                works = [together.create_task(self._agent(agent, number, standing)) for agent in missing]
            for work in works:
                if (used_up := work.result()) is not None:
                    raise used_up
        return self._ended(number)

    def _ended(self, number: int) -> Ended | None:
        alive = [agent for agent in self._workers if agent not in self._failed]
        if not self._answers:
            return Ended.FAILED
        if not alive or len(self._workers) == 1 or (len(alive) == 1 and [*self._answers] == alive):
            return Ended.ANSWERED
        votes = self._votes(number)
        everybody_voted = all(
            (number, agent) in self._done and self._done[number, agent].kind == VOTED for agent in alive
        )
        return Ended.CONSENSUS if everybody_voted and votes else None

    async def _agent(self, agent: str, number: int, standing: Mapping[str, Done]) -> UsedUp | None:
        """What one agent does in a round; why the run ends with it, if it does."""
        try:
            await self._worked(agent, number, standing)
        except UsedUp as used_up:
            return used_up
        except StateFault as fault:
            # What nobody can resume is not worth working on; what is kept already can be, once there is room.
            self._around.hear(Notice(agent=agent, round=number, text=str(fault)))
            return UsedUp(Ended.INTERRUPTED)
        return None

    async def _worked(self, agent: str, number: int, standing: Mapping[str, Done]) -> None:
        """Nothing that goes wrong with one agent touches the others."""
        around = self._around
        around.hear(AgentStarted(agent=agent, round=number))
        try:
            with around.tracing.work(agent, number):
                worker = self._workers[agent]
                work = await worker.work(self._prompt(worker, number, standing), number)
        except (UsedUp, StateFault):
            raise
        except ToolyardError as error:
            self._fail(agent, number, error)
        except Exception as error:  # noqa: BLE001 - the edge of an agent: the team goes on without it
            self._fail(agent, number, SystemFault(f"{type(error).__name__}: {error}", hint=_REPORT))
        else:
            vote = parse_vote(work.text, [*standing]) if standing else None
            if vote is not None:
                self._finish(Done(number, agent, VOTED, vote.why, work.snapshot, vote.choice))
                around.hear(Voted(agent=agent, round=number, choice=vote.choice, why=vote.why))
            else:
                self._finish(Done(number, agent, ANSWERED, work.text, work.snapshot))
                around.hear(Answered(agent=agent, round=number, text=work.text, snapshot=work.snapshot))

    def _prompt(self, worker: Worker, number: int, standing: Mapping[str, Done]) -> str:
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
        self._finish(Done(number, agent, FAILED, str(error)))
        self._around.hear(AgentFailed(agent=agent, round=number, why=error.message, hint=error.hint))

    def _finish(self, done: Done) -> None:
        self._around.store.note(seconds=self._around.budget.seconds)
        self._around.store.done(done)
        self._take(done)

    def _take(self, done: Done) -> None:
        self._done[done.round, done.agent] = done
        if done.kind == ANSWERED:
            self._answers[done.agent] = done
        elif done.kind == FAILED:
            self._failed.add(done.agent)

    def _votes(self, number: int) -> dict[str, str]:
        """Who voted for whom in a round; votes for nobody that there is left out."""
        return {
            done.agent: done.choice
            for (when, _), done in self._done.items()
            if when == number and done.kind == VOTED and done.choice in self._answers
        }

    def outcome(self, ended: Ended) -> Outcome:
        """What stands now."""
        rounds = max((number for number, _ in self._done), default=0)
        votes = self._votes(rounds)
        in_order = [agent for agent in self._workers if agent in self._answers]
        if not in_order:
            return Outcome(ended if ended is not Ended.ROUNDS else Ended.FAILED, rounds=rounds)
        count = Counter(votes.values())
        winner = max(in_order, key=lambda agent: count[agent])  # the first of those with most votes
        done = self._answers[winner]
        return Outcome(ended, winner, done.text, done.snapshot, votes, rounds)
