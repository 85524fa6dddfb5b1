"""Who may read and write whose memory. Pure: the configuration in, yes or no out.

An agent's own memory is its own. Another's can be read when `allow_read_from` names that agent, and read and written
when `allow_write_to` does: who corrects a note has to see it.
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
    READ = "read"
    WRITE = "write"


_RULE_KEYS = {MemoryAccess.READ: "allow_read_from", MemoryAccess.WRITE: "allow_write_to"}


def memory_rules(config: Config) -> dict[str, MemoryRules]:
    return {agent.id: agent.memory for agent in config.agents}


def may_access(agent: str, other: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> bool:
    """Whether `agent` may do that with the memory of `other`. Whoever has no rules has only its own."""
    if agent == other:
        return True
    own = rules.get(agent)
    if own is None:
        return False
    return other in own.allow_write_to or (access is MemoryAccess.READ and other in own.allow_read_from)


def require_access(agent: str, other: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> None:
    if not may_access(agent, other, access, rules):
        raise SecurityError(
            f"Agent '{agent}' may not {access.value} the memory of '{other}'.",
            hint=f"The user can allow it in the configuration, for {agent}: memory: {{{_RULE_KEYS[access]}: [{other}]}}.",
        )


def reachable_agents(agent: str, access: MemoryAccess, rules: Mapping[str, MemoryRules]) -> tuple[str, ...]:
    """Whose memory it may reach: its own first, then the others as its rules name them."""
    own = rules.get(agent)
    named = () if own is None else (*own.allow_read_from, *own.allow_write_to)
    return tuple(dict.fromkeys(other for other in (agent, *named) if may_access(agent, other, access, rules)))
