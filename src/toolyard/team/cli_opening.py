"""From an agent of the configuration that is a CLI to its Worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.app.yard import Yard
from toolyard.core.errors import ConfigError
from toolyard.drivers.making import closed_in_thread, made_in_thread
from toolyard.drivers.options import DriveOptions
from toolyard.team.cli_worker import CliRecipe, CliWorker
from toolyard.team.places import without_fresh_start, workspace_of
from toolyard.team.prompts import system_prompt

if TYPE_CHECKING:
    from toolyard.config.backends import BackendKind
    from toolyard.config.models import Agent
    from toolyard.team.opening import Opening


async def open_cli(opening: Opening, agent: Agent, kind: BackendKind) -> CliWorker:
    """Raises ToolyardError."""
    if opening.host is None:
        raise ConfigError(f"agent {agent.id!r} is a CLI, and there is no host for it.")
    # What it will see is known once its workspace has been opened as the run will open it.
    yard = await made_in_thread(lambda: Yard.open(opening.yard_options(agent)))
    try:
        info = opening.info(agent, kind, yard, agent.backend.model or "")
        prefix = yard.sharing.prefix if yard.sharing is not None else ""
        instructions = system_prompt(opening.config, agent, yard)
    finally:
        await closed_in_thread(yard)
    given = opening.options
    options = DriveOptions(
        workspace=workspace_of(opening.config, agent),
        model=agent.backend.model or "",
        timeout=agent.backend.timeout or opening.around.budget.limits.seconds,
        instructions=instructions,
        config=without_fresh_start(opening.config),  # it was opened just now, and is as fresh as it was to be
        agent=agent.id,
        run=opening.around.run,
        state=given.state_home,
        ask=given.askers(agent.id) if given.askers is not None else None,
        variables=given.variables,
        injected=opening.injection(agent),
    )
    return CliWorker(info, CliRecipe(kind.driver, options, prefix), opening.host, opening.around)
