"""One run of a team: opens everything, runs the rounds, reports the result and closes everything.

    run = TeamRun(options, on_event)
    finished = await run.go()

A TeamRun owns its locks, its store, its log and its workers while it runs, and releases them however it ends.
`stop()` ends it gracefully: finished work is kept, and the run can be resumed. An invalid configuration raises before
the run begins; afterwards errors become events, and the run ends with exactly one RunFinished.
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
from toolyard.core.threaded_open import close_in_thread, open_in_thread
from toolyard.models.endpoint import resolve_endpoint
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.team.apply_result import TeamFiles
from toolyard.team.budget import Budget
from toolyard.team.check.sandboxes import sandbox_notices
from toolyard.team.end_reason import end_reason
from toolyard.team.events import AgentFailed, EndReason, Notice, RunFinished, RunStarted, TeamEvent, Waiting
from toolyard.team.fd_limit import raise_fd_limit
from toolyard.team.log import RunLog, calls_since_last_turn, files_changed_before
from toolyard.team.options import RunOptions
from toolyard.team.paths import find_run, make_folders, root_of, runs_folder, with_layout, workspace_of
from toolyard.team.report.write import try_write_report
from toolyard.team.rounds import Rounds
from toolyard.team.run_context import RunContext
from toolyard.team.run_lock import RunLocks
from toolyard.team.server_sync import sync_servers
from toolyard.team.store import RunStore, StateFault
from toolyard.team.tracing import open_tracing
from toolyard.team.worker import Worker
from toolyard.team.worker_factory import WorkerFactory, agent_backend_kind

if TYPE_CHECKING:
    from toolyard.drivers.mcp_host import Host
    from toolyard.mcp_client import SharedServers

_MAX_CONCURRENT_OPENS = 8

T = TypeVar("T")


class TeamRun:
    """One run of a team of agents. `run_team` is the short form.

    Args:
        options: What the run needs to start.
        on_event: Called with each event of the run, in order.

    Raises:
        ToolyardError: The configuration is invalid, or the run to resume does not exist.

    Example:
        ```python
        run = TeamRun(RunOptions(load_config("team.yaml"), "Write the changelog"), print)
        finished = await run.go()
        ```

    """

    def __init__(self, options: RunOptions, on_event: Callable[[TeamEvent], None]) -> None:
        """Checks the configuration before anything is created."""
        self._config = with_layout(options.config)
        check_execution_mode(self._config)
        for agent in self._config.agents:  # before anything is created: a missing key cannot be fixed later
            if agent_backend_kind(agent, self._config).api:
                resolve_endpoint(agent.backend, options.settings.model_access)
        self._options = options
        self._on_event = on_event
        self._state_home = options.state_home or options.settings.state_home
        if options.resume:
            self.folder = find_run(options.resume, self._state_home)
        else:
            self.folder = os.path.join(runs_folder(self._config, self._state_home), new_id())
        self.id = os.path.basename(self.folder)
        self._current_task: asyncio.Task[Any] | None = None
        self._is_stopped = self._has_begun = False
        self._waiting: dict[str, str] = {}
        """Why each agent currently waits for its model."""

    def stop(self) -> None:
        """Ends the run. `go` returns when everything is closed."""
        self._is_stopped = True
        if self._current_task is not None:
            self._current_task.cancel()

    async def go(self) -> RunFinished:
        """Runs it, once. Raises ToolyardError, and leaves nothing behind, if the run cannot start."""
        config, options = self._config, self._options
        raise_fd_limit(len(config.agents))
        make_folders(config)
        async with contextlib.AsyncExitStack() as owned:
            folders = (root_of(config), *(workspace_of(config, agent) for agent in config.agents))
            guard = owned.enter_context(RunLocks(self._state_home, folders, self.id))
            ensure_state_dir(self.folder)
            guard.lock_run(self.folder)
            if not options.resume:
                owned.callback(self._remove_if_not_begun)
            store = owned.enter_context(RunStore(self.folder))
            task = self._begin(store)
            log = owned.enter_context(RunLog(self.folder, self._on_event)) if config.ui.logging_enabled else None
            tracing = await open_in_thread(lambda: open_tracing(config, options.settings))
            owned.push_async_callback(close_in_thread, tracing)

            def emit(event: TeamEvent) -> None:
                self._track_waiting(event)
                if log is not None:
                    log.record(event)
                self._on_event(event)

            earlier = calls_since_last_turn(self.folder) if self._options.resume else {}
            context = RunContext(self.id, store, self._budget(store), emit, tracing, earlier)
            async with contextlib.AsyncExitStack() as workers:
                finished = await self._run_rounds(task, context, workers)
            self._note_end(store, finished, context)
            if log is not None:
                log.record(finished)
        if config.ui.logging_enabled:
            files = TeamFiles(options.config, options.settings, options.state_home, finished.began)
            await asyncio.to_thread(try_write_report, self.folder, files.diff_of)
        self._on_event(finished)  # last, when everything is closed and the report exists
        return finished

    def _track_waiting(self, event: TeamEvent) -> None:
        if isinstance(event, Waiting):
            self._waiting[event.agent] = event.why
        elif event.agent:
            self._waiting.pop(event.agent, None)

    def _note_end(self, store: RunStore, finished: RunFinished, context: RunContext) -> None:
        try:
            result = {"winner": finished.winner, "snapshot": finished.snapshot}
            store.set_facts(ended=finished.ended.value, seconds=context.budget.seconds, result=result)
        except StateFault as fault:  # the result exists anyway, and resuming the run gives the same one
            context.emit(Notice(text=str(fault)))

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
        """Saves what is run, and returns the task; loads the task of a resumed run."""
        config, agents = self._config, [agent.id for agent in self._config.agents]
        if not self._options.resume:
            store.begin(task=self._options.task, config=config.source, agents=agents)
            return self._options.task
        ended = store.fact("ended")
        if ended in {EndReason.ANSWERED, EndReason.CONSENSUS}:
            raise ToolError(
                f"Run {self.id} is complete ({ended}) and cannot be resumed.",
                hint=f"Its report is {os.path.join(self.folder, 'report.md')}; --apply DIR copies its files.",
            )
        if store.fact("agents") != agents:
            raise ConfigError(
                f"run {self.id} was started with the agents {', '.join(store.fact('agents', []))}.",
                where=config.source or "",
                hint="Put them back into the configuration, or start another run.",
            )
        return store.fact("task", "")

    async def _run_rounds(self, task: str, context: RunContext, owned: contextlib.AsyncExitStack) -> RunFinished:
        """Opens the workers and runs the rounds, from the first event to the outcome."""
        with context.tracing.run(self.id, len(self._config.agents)) as span:
            workers = await self._unless_stopped(self._prepare_workers(context, owned)) or []
            limits = context.budget.limits
            context.budget.begin()
            self._has_begun = True
            context.emit(
                RunStarted(
                    run=self.id,
                    task=task,
                    agents=tuple(worker.info for worker in workers),
                    folder=self.folder,
                    resumed=bool(self._options.resume),
                    limits={name: value for name, value in limits.model_dump().items() if value is not None},
                    changed=files_changed_before(self.folder) if self._options.resume else {},
                )
            )
            self._notify_unpriced(context)
            rounds = Rounds(task, workers, context)
            outcome = await self._unless_stopped(rounds.run()) or rounds.outcome(EndReason.INTERRUPTED)
            span.set_attributes(toolyard__ended=outcome.ended.value, toolyard__rounds=outcome.rounds)
        return RunFinished(
            run=self.id,
            ended=outcome.ended,
            why=end_reason(outcome, limits, self._waiting),
            winner=outcome.winner,
            text=outcome.text,
            snapshot=outcome.snapshot,
            votes=outcome.votes,
            spent=context.budget.spent,
            seconds=round(context.budget.seconds, 3),
            rounds=outcome.rounds,
            began=context.store.fact("began", 0.0),
            folder=self.folder,
        )

    def _notify_unpriced(self, context: RunContext) -> None:
        if context.budget.limits.cost is None:
            return
        from toolyard.team.check.parts import unpriced_model_notices  # loading the prices takes a second

        for sentence in unpriced_model_notices(self._config, self._options.settings, context.budget.limits):
            context.emit(Notice(text=f"{sentence[:1].upper()}{sentence[1:]}"))

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Awaits `work`. Returns None if `stop` ended it or was called before."""
        if self._is_stopped:
            work.close()
            return None
        self._current_task = asyncio.create_task(work)
        try:
            return await self._current_task
        except asyncio.CancelledError:
            if not self._is_stopped:  # the caller was cancelled, not the run
                self._current_task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._current_task
                raise
            return None

    async def _prepare_workers(self, context: RunContext, owned: contextlib.AsyncExitStack) -> list[Worker]:
        loop, stop = asyncio.get_running_loop(), concurrent.futures.Future[None]()

        def notify(text: str) -> None:
            if not stop.cancelled():
                loop.call_soon_threadsafe(context.emit, Notice(text=text))

        for text in await asyncio.to_thread(sandbox_notices, self._options):
            context.emit(Notice(text=text))
        try:
            await asyncio.to_thread(sync_servers, self._config, self._options, notify, stop)
        except asyncio.CancelledError:
            stop.cancel()  # otherwise the thread would go on waiting for servers
            raise
        return await self._open_workers(context, owned)

    async def _open_workers(self, context: RunContext, owned: contextlib.AsyncExitStack) -> list[Worker]:
        """Opens all workers that can be opened. Raises ToolyardError if none can, or for a ConfigError."""
        servers = await self._open_servers(owned)
        host = await self._open_host(owned, servers)
        resumed = bool(self._options.resume)
        opening = WorkerFactory(self._options, self._config, context, host, servers, resumed=resumed)
        few = asyncio.Semaphore(_MAX_CONCURRENT_OPENS)

        async def open_worker(agent: Agent) -> Worker | ToolyardError:
            async with few:
                try:
                    worker = await opening.open_worker(agent)
                except ToolyardError as error:
                    return error
            owned.push_async_callback(worker.close)
            return worker

        found = await asyncio.gather(*(open_worker(agent) for agent in self._config.agents))
        faults = [each for each in found if isinstance(each, ToolyardError)]
        workers = [each for each in found if not isinstance(each, ToolyardError)]
        for fault in faults:
            if isinstance(fault, ConfigError) or not workers:
                raise fault
        for agent, each in zip(self._config.agents, found, strict=True):
            if isinstance(each, ToolyardError):
                context.emit(AgentFailed(agent=agent.id, why=each.message, hint=each.hint))
        return workers

    async def _open_servers(self, owned: contextlib.AsyncExitStack) -> SharedServers | None:
        """Returns the servers that all agents share, so that each server runs once."""
        if not self._config.has_servers:
            return None
        from toolyard.mcp_client import SharedServers  # imports everything that servers need

        servers = SharedServers(max_running=self._config.toolyard.max_running_servers)
        owned.push_async_callback(close_in_thread, servers)
        return servers

    async def _open_host(self, owned: contextlib.AsyncExitStack, servers: SharedServers | None) -> Host | None:
        if not any(agent_backend_kind(agent, self._config).driver for agent in self._config.agents):
            return None
        from toolyard.drivers.mcp_host import Host  # most teams have no CLI

        host = await open_in_thread(lambda: Host(servers))
        owned.push_async_callback(close_in_thread, host)
        return host
