"""Creates a Worker from an agent of the configuration: opens its workspace and its model or CLI.

An invalid configuration (no key, unknown backend) raises ConfigError before the run begins.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.app.execution_mode import ToolInjection, tool_injection_for
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.backends import BackendKind, backend_kind
from toolyard.config.models import Agent, Config
from toolyard.core.errors import ConfigError
from toolyard.core.threaded_open import close_in_thread, open_in_thread
from toolyard.models.factory import open_model
from toolyard.models.retry import PATIENCE
from toolyard.team.api_worker import ApiWorker
from toolyard.team.events import AgentInfo
from toolyard.team.options import RunOptions
from toolyard.team.paths import without_fresh_start, workspace_of
from toolyard.team.prompts import system_prompt
from toolyard.team.run_context import RunContext
from toolyard.team.tool_calls import ToolCalls
from toolyard.team.worker import Worker

if TYPE_CHECKING:
    from toolyard.drivers.mcp_host import Host
    from toolyard.mcp_client import SharedServers
    from toolyard.team.cli_worker import CliWorker


def agent_backend_kind(agent: Agent, config: Config) -> BackendKind:
    """Returns the backend kind of an agent. Raises ConfigError."""
    name = agent.backend.type
    kind = backend_kind(name) if name is not None else None
    if kind is None:
        raise ConfigError(
            f'agent "{agent.id}" has no backend: `backend.type` says which model or CLI works for it.',
            where=config.source or "",
            hint="For example `backend: {type: gemini, model: gemini-2.5-flash}`.",
        )
    return kind


@dataclass(frozen=True, slots=True)
class WorkerFactory:
    """Opens the workers of one run."""

    options: RunOptions
    config: Config
    """The configuration with its layout."""
    context: RunContext
    host: Host | None = None
    """Serves agent CLIs."""
    servers: SharedServers | None = None
    """Upstream servers that all agents of the run share."""
    resumed: bool = False

    async def open_worker(self, agent: Agent) -> Worker:
        """Opens the worker of an agent. Raises ToolyardError."""
        kind = agent_backend_kind(agent, self.config)
        if not kind.driver:
            return await self._open_api_worker(agent, kind)
        return await _open_cli_worker(self, agent, kind)

    def yard_options(self, agent: Agent) -> YardOptions:
        config = without_fresh_start(self.config) if self.resumed else self.config
        return YardOptions(
            workspace=workspace_of(self.config, agent),
            config=config,
            settings=self.options.settings,
            agent=agent.id,
            state_home=self.options.state_home,
            begins_session=True,
            servers=self.servers,
            injection=self.injection(agent),
        )

    def injection(self, agent: Agent) -> ToolInjection:
        return tool_injection_for(self.options.config, agent.id)  # the configuration as written, without our layout

    async def _open_api_worker(self, agent: Agent, kind: BackendKind) -> ApiWorker:
        context, options = self.context, self.options
        patience = PATIENCE if options.patience is None else options.patience
        # Loading a provider's library takes a second.
        model = await asyncio.to_thread(open_model, agent.backend, options.settings.model_access, patience=patience)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(model.close)
            yard = await open_in_thread(lambda: Yard.open(self.yard_options(agent)))
            undo.push_async_callback(close_in_thread, yard)
            info = self.info(agent, kind, yard, model.title)
            calls = ToolCalls(agent.id, yard, options.asker(agent.id), context)
            instructions = system_prompt(self.config, agent, yard)
            worker = ApiWorker(info, yard, model, context, instructions=instructions, calls=calls)
            undo.pop_all()
        return worker

    def info(self, agent: Agent, kind: BackendKind, yard: Yard, model: str) -> AgentInfo:
        return AgentInfo(
            id=agent.id,
            backend=kind.name,
            model=model,
            workspace=yard.home.workspace,
            mode=yard.policy.mode.value,
            tools=tuple(yard.dispatch.tools),
        )


async def _open_cli_worker(factory: WorkerFactory, agent: Agent, kind: BackendKind) -> CliWorker:
    """Opens the worker of an agent CLI. Raises ToolyardError."""
    # Drivers import an MCP server, which most teams do not need.
    from toolyard.drivers.options import DriveOptions
    from toolyard.team.cli_worker import CliAgentSetup, CliWorker

    if factory.host is None:
        raise ConfigError(f"agent {agent.id!r} is a CLI, but no host is available for it.")
    # What the agent sees is only known after opening its workspace as the run will.
    yard = await open_in_thread(lambda: Yard.open(factory.yard_options(agent)))
    try:
        info = factory.info(agent, kind, yard, agent.backend.model or "")
        prefix = yard.sharing.prefix if yard.sharing is not None else ""
        instructions = system_prompt(factory.config, agent, yard)
    finally:
        await close_in_thread(yard)
    run_options = factory.options
    options = DriveOptions(
        workspace=workspace_of(factory.config, agent),
        model=agent.backend.model or "",
        timeout=agent.backend.timeout or factory.context.budget.limits.seconds,
        instructions=instructions,
        config=without_fresh_start(factory.config),  # its folder was emptied when it was opened above
        agent=agent.id,
        run=factory.context.run,
        state=run_options.state_home,
        ask=run_options.askers(agent.id) if run_options.askers is not None else None,
        variables=run_options.variables,
        injected=factory.injection(agent),
    )
    return CliWorker(info, CliAgentSetup(kind.driver, options, prefix), factory.host, factory.context)
