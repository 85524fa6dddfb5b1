"""Options of `toolyard mcp` that set keys of an agent's `backend`, for clients without a configuration file."""

from __future__ import annotations

from dataclasses import replace

from toolyard.cli.common.resolve_workspace import ResolvedWorkspace
from toolyard.config.agents import select_agent
from toolyard.config.models import Agent, Backend
from toolyard.workspace.agent_paths import UNNAMED_AGENT


def with_backend_options(
    resolved: ResolvedWorkspace,
    agent: str | None,
    *,
    fresh: bool,
    allowed: tuple[str, ...],
    excluded: tuple[str, ...],
) -> ResolvedWorkspace:
    """Returns the workspace with an agent that has these options; other keys of its entry stay."""
    config = resolved.config
    found = select_agent(config, agent)
    backend = found.backend if found is not None else Backend()
    changed = backend.model_copy(
        update={
            "exclude_tools": (*backend.exclude_tools, *excluded),
            **({"allowed_tools": allowed} if allowed else {}),
            **({"fresh": True, "cwd": resolved.workspace} if fresh else {}),
        }
    )
    served = (found or Agent(id=agent or UNNAMED_AGENT)).model_copy(update={"backend": changed})
    agents = tuple(served if each is found else each for each in config.agents) or (served,)
    return replace(resolved, config=config.model_copy(update={"agents": agents}))
