"""Decides which agents may read and write each other's memory, from the configuration alone.

An agent always has access to its own memory. It can read another agent's if `allow_read_from` names that agent, and
read and write it if `allow_write_to` does: correcting a note requires reading it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from toolyard.core.errors import SecurityError

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.config.models import Memory as MemoryRules


class MemoryAccess(StrEnum):
    """The kind of access to an agent's memory."""

    READ = "read"
    WRITE = "write"


_RULE_KEYS = {MemoryAccess.READ: "allow_read_from", MemoryAccess.WRITE: "allow_write_to"}


def memory_rules(config: Config) -> dict[str, MemoryRules]:
    """Returns the memory rules of each agent by its id."""
    return {agent.id: agent.memory for agent in config.agents}


def may_access(agent: str, other: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> bool:
    """Whether `agent` has that access to the memory of `other`. Without rules, it has only its own."""
    if agent == other:
        return True
    own = rules.get(agent)
    if own is None:
        return False
    return other in own.allow_write_to or (access is MemoryAccess.READ and other in own.allow_read_from)


def require_access(agent: str, other: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> None:
    """Raises SecurityError unless `agent` has that access to the memory of `other`."""
    if not may_access(agent, other, access, rules):
        raise SecurityError(
            f"Agent '{agent}' may not {access.value} the memory of '{other}'.",
            hint="The user can allow it in the configuration, "
            f"for {agent}: memory: {{{_RULE_KEYS[access]}: [{other}]}}.",
        )


def reachable_agents(agent: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> tuple[str, ...]:
    """Returns the agents whose memory `agent` may access: itself first, then the others in the order of its rules."""
    own = rules.get(agent)
    named = () if own is None else (*own.allow_read_from, *own.allow_write_to)
    return tuple(dict.fromkeys(other for other in (agent, *named) if may_access(agent, other, access, rules)))
