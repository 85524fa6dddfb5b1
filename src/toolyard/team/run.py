"""One run of a team: everything it needs is opened, the rounds are run, the result is told, everything is closed.

    run = TeamRun(options, hear)
    finished = await run.go()

A TeamRun owns its folder's lock, its store, its log and its workers while it goes, and gives all of them back in
every ending. `stop()` ends it in good order: what is finished stays, and the run can be resumed. What cannot be
right is raised before the run has begun; whatever happens after that is told, and ends in exactly one RunFinished.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import shutil
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from toolyard.config.execution_mode import check_execution_mode
from toolyard.config.models import Agent
from toolyard.core.errors import ConfigError, ToolError, ToolyardError
from toolyard.core.ids import new_id
from toolyard.core.threaded_open import closed_in_thread, made_in_thread
from toolyard.models.endpoint import place_of
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.team.apply_result import TeamFiles
from toolyard.team.budget import Budget
from toolyard.team.check.sandboxes import sandbox_notices
from toolyard.team.end_reason import why_of
from toolyard.team.events import AgentFailed, Ended, Notice, RunFinished, RunStarted, TeamEvent, Waiting
from toolyard.team.fd_limit import make_room
from toolyard.team.log import RunLog, calls_before, changed_before
from toolyard.team.options import RunOptions
from toolyard.team.paths import find_run, make_folders, root_of, runs_of, with_layout, workspace_of
from toolyard.team.report.write import report_on
from toolyard.team.rounds import Rounds
from toolyard.team.run_context import Surroundings
from toolyard.team.run_lock import Guard
from toolyard.team.server_sync import make_servers_known
from toolyard.team.store import RunStore, StateFault
from toolyard.team.tracing import open_tracing
from toolyard.team.worker import Worker
from toolyard.team.worker_factory import Opening, kind_of

if TYPE_CHECKING:
    from toolyard.drivers.mcp_host import Host
    from toolyard.mcp_client import SharedServers

_OPENED_AT_ONCE = 8

T = TypeVar("T")


class TeamRun:
    def __init__(self, options: RunOptions, hear: Callable[[TeamEvent], None]) -> None:
        """Raises ToolyardError where the configuration cannot be right or there is no such run."""
        self._config = with_layout(options.config)
        check_execution_mode(self._config)
        for agent in self._config.agents:  # before anything is made: what is missing is missing for good
            if kind_of(agent, self._config).api:
                place_of(agent.backend, options.settings.model_access)
        self._options = options
        self._hear = hear
        self._state_home = options.state_home or options.settings.state_home
        if options.resume:
            self.folder = find_run(options.resume, self._state_home)
        else:
            self.folder = os.path.join(runs_of(self._config, self._state_home), new_id())
        self.id = os.path.basename(self.folder)
        self._going: asyncio.Task[Any] | None = None
        self._is_stopped = self._has_begun = False
        self._waiting: dict[str, str] = {}
        """Why an agent waits for its model at this moment."""

    def stop(self) -> None:
        """End it. `go` returns when everything is closed."""
        self._is_stopped = True
        if self._going is not None:
            self._going.cancel()

    async def go(self) -> RunFinished:
        """Once. Raises ToolyardError where it cannot begin; nothing is left of it then."""
        config, options = self._config, self._options
        make_room(len(config.agents))
        make_folders(config)
        async with contextlib.AsyncExitStack() as owned:
            folders = (root_of(config), *(workspace_of(config, agent) for agent in config.agents))
            guard = owned.enter_context(Guard(self._state_home, folders, self.id))
            ensure_state_dir(self.folder)
            guard.hold_run(self.folder)
            if not options.resume:
                owned.callback(self._remove_if_not_begun)
            store = owned.enter_context(RunStore(self.folder))
            task = self._begin(store)
            log = owned.enter_context(RunLog(self.folder, self._hear)) if config.ui.logging_enabled else None
            tracing = await made_in_thread(lambda: open_tracing(config, options.settings))
            owned.push_async_callback(closed_in_thread, tracing)

            def hear(event: TeamEvent) -> None:
                self._mind_waiting(event)
                if log is not None:
                    log.hear(event)
                self._hear(event)

            earlier = calls_before(self.folder) if self._options.resume else {}
            around = Surroundings(self.id, store, self._budget(store), hear, tracing, earlier)
            async with contextlib.AsyncExitStack() as workers:
                finished = await self._gone(task, around, workers)
            self._note_end(store, finished, around)
            if log is not None:
                log.hear(finished)
        if config.ui.logging_enabled:
            files = TeamFiles(options.config, options.settings, options.state_home, finished.began)
            await asyncio.to_thread(report_on, self.folder, files.diff_of)
        self._hear(finished)  # the last that is heard: everything is closed, and the report is there
        return finished

    def _mind_waiting(self, event: TeamEvent) -> None:
        if isinstance(event, Waiting):
            self._waiting[event.agent] = event.why
        elif event.agent:
            self._waiting.pop(event.agent, None)

    def _note_end(self, store: RunStore, finished: RunFinished, around: Surroundings) -> None:
        try:
            result = {"winner": finished.winner, "snapshot": finished.snapshot}
            store.note(ended=finished.ended.value, seconds=around.budget.seconds, result=result)
        except StateFault as fault:  # the result is there all the same; resuming it comes to the same one
            around.hear(Notice(text=str(fault)))

    def _budget(self, store: RunStore) -> Budget:
        limits = self._options.limits or self._config.orchestrator.limits
        budget = Budget(limits, seconds=store.fact("seconds", 0.0))
        for agent in self._config.agents:
            budget.spend(store.agent(agent.id).spent)
        return budget

    def _remove_if_not_begun(self) -> None:
        if not self._has_begun:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _begin(self, store: RunStore) -> str:
        """Note what is run; of a run that is resumed, what it was."""
        config, agents = self._config, [agent.id for agent in self._config.agents]
        if not self._options.resume:
            store.begin(task=self._options.task, config=config.source, agents=agents)
            return self._options.task
        ended = store.fact("ended")
        if ended in {Ended.ANSWERED, Ended.CONSENSUS}:
            raise ToolError(
                f"Run {self.id} is over ({ended}): there is nothing to resume.",
                hint=f"Its report is {os.path.join(self.folder, 'report.md')}; --apply DIR brings its files.",
            )
        if store.fact("agents") != agents:
            raise ConfigError(
                f"run {self.id} was begun with the agents {', '.join(store.fact('agents', []))}.",
                where=config.source or "",
                hint="Put them back into the configuration, or start another run.",
            )
        return store.fact("task", "")

    async def _gone(self, task: str, around: Surroundings, owned: contextlib.AsyncExitStack) -> RunFinished:
        """The run itself, from its first event to what became of it."""
        with around.tracing.run(self.id, len(self._config.agents)) as span:
            workers = await self._unless_stopped(self._prepared(around, owned)) or []
            limits = around.budget.limits
            around.budget.begin()
            self._has_begun = True
            around.hear(
                RunStarted(
                    run=self.id,
                    task=task,
                    agents=tuple(worker.info for worker in workers),
                    folder=self.folder,
                    resumed=bool(self._options.resume),
                    limits={name: value for name, value in limits.model_dump().items() if value is not None},
                    changed=changed_before(self.folder) if self._options.resume else {},
                )
            )
            self._tell_unpriced(around)
            rounds = Rounds(task, workers, around)
            outcome = await self._unless_stopped(rounds.run()) or rounds.outcome(Ended.INTERRUPTED)
            span.note(toolyard__ended=outcome.ended.value, toolyard__rounds=outcome.rounds)
        return RunFinished(
            run=self.id,
            ended=outcome.ended,
            why=why_of(outcome, limits, self._waiting),
            winner=outcome.winner,
            text=outcome.text,
            snapshot=outcome.snapshot,
            votes=outcome.votes,
            spent=around.budget.spent,
            seconds=round(around.budget.seconds, 3),
            rounds=outcome.rounds,
            began=around.store.fact("began", 0.0),
            folder=self.folder,
        )

    def _tell_unpriced(self, around: Surroundings) -> None:
        if around.budget.limits.cost is None:
            return
        from toolyard.team.check.parts import unpriced  # prices are a second's work to load

        for sentence in unpriced(self._config, self._options.settings, around.budget.limits):
            around.hear(Notice(text=f"{sentence[:1].upper()}{sentence[1:]}"))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None where `stop` ended it, or had been called before."""
        if self._is_stopped:
            work.close()
            return None
        self._going = asyncio.create_task(work)
        try:
            return await self._going
        except asyncio.CancelledError:
            if not self._is_stopped:  # it is our caller who was cancelled
                self._going.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._going
                raise
            return None

    async def _prepared(self, around: Surroundings, owned: contextlib.AsyncExitStack) -> list[Worker]:
        loop, stop = asyncio.get_running_loop(), concurrent.futures.Future[None]()

        def tell(text: str) -> None:
            if not stop.cancelled():
                loop.call_soon_threadsafe(around.hear, Notice(text=text))

        for text in await asyncio.to_thread(sandbox_notices, self._options):
            around.hear(Notice(text=text))
        try:
            await asyncio.to_thread(make_servers_known, self._config, self._options, tell, stop)
        except asyncio.CancelledError:
            stop.cancel()  # or the thread would wait for servers that nobody needs any more
            raise
        return await self._workers(around, owned)

    async def _workers(self, around: Surroundings, owned: contextlib.AsyncExitStack) -> list[Worker]:
        """All that can be opened. Raises ToolyardError where none can, or the configuration is at fault."""
        servers = await self._servers(owned)
        host = await self._host(owned, servers)
        resumed = bool(self._options.resume)
        opening = Opening(self._options, self._config, around, host, servers, resumed=resumed)
        few = asyncio.Semaphore(_OPENED_AT_ONCE)

        async def opened(agent: Agent) -> Worker | ToolyardError:
            async with few:
                try:
                    worker = await opening.worker(agent)
                except ToolyardError as error:
                    return error
            owned.push_async_callback(worker.close)
            return worker

        found = await asyncio.gather(*(opened(agent) for agent in self._config.agents))
        faults = [each for each in found if isinstance(each, ToolyardError)]
        workers = [each for each in found if not isinstance(each, ToolyardError)]
        for fault in faults:
            if isinstance(fault, ConfigError) or not workers:
                raise fault
        for agent, each in zip(self._config.agents, found, strict=True):
            if isinstance(each, ToolyardError):
                around.hear(AgentFailed(agent=agent.id, why=each.message, hint=each.hint))
        return workers

    async def _servers(self, owned: contextlib.AsyncExitStack) -> SharedServers | None:
        """What all agents call their servers through, so that each server runs once."""
        if not self._config.has_servers:
            return None
        from toolyard.mcp_client import SharedServers  # with it comes all that servers need

        servers = SharedServers(most_running=self._config.toolyard.max_running_servers)
        owned.push_async_callback(closed_in_thread, servers)
        return servers

    async def _host(self, owned: contextlib.AsyncExitStack, servers: SharedServers | None) -> Host | None:
        if not any(kind_of(agent, self._config).driver for agent in self._config.agents):
            return None
        from toolyard.drivers.mcp_host import Host  # most teams have no CLI in them

        host = await made_in_thread(lambda: Host(servers))
        owned.push_async_callback(closed_in_thread, host)
        return host
