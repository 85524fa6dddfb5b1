"""Selects an agent of the configuration and checks the agents' memory rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError

if TYPE_CHECKING:
    from toolyard.config.models import Agent, Config


def select_agent(config: Config, agent: str | None) -> Agent | None:
    """Returns the agent of that name; without a name, the only configured agent, or None if there are several."""
    if agent is None:
        return config.agents[0] if len(config.agents) == 1 else None
    found = next((candidate for candidate in config.agents if candidate.id == agent), None)
    if found is None and config.agents:
        known = [candidate.id for candidate in config.agents]
        raise ConfigError(f'there is no agent "{agent}" in the configuration.', hint=did_you_mean(agent, known))
    return found


def check_memory_rights(config: Config) -> None:
    """Raises ConfigError if memory rights name an agent that does not exist: the right would have no effect."""
    from toolyard.config.error_location import with_error_location

    known = [agent.id for agent in config.agents]
    for number, agent in enumerate(config.agents):
        named = {"allow_read_from": agent.memory.allow_read_from, "allow_write_to": agent.memory.allow_write_to}
        for key, others in named.items():
            for position, other in enumerate(others):
                if other not in known:
                    with with_error_location(config, "agents", number, "memory", key, position):
                        raise ConfigError(
                            f'`{key}` of agent "{agent.id}" names "{other}", but there is no such agent.',
                            hint=did_you_mean(other, known),
                        )
