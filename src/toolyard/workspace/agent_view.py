"""What one agent sees of a layout beside its workspace: the folders it may read or write, and their short names.

Pure data. The folders appear at their own paths, so that every kind of sandbox can show them; a link with the short
name beside the agent's files leads to each. An inner folder may be writable although the outer one is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.config.memory_access import MemoryAccess, may_access, reachable_agents
from toolyard.core.agent_folder_names import COMMUNITY, agent_folder
from toolyard.core.permission_modes import Access
from toolyard.policy.policy import ContextPath
from toolyard.workspace.layout import MEMORY, SERVERS, SHARED, SKILLS, TASKS, TOOLS, skills_folder

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules


@dataclass(frozen=True, slots=True)
class AgentView:
    """The folders that an agent sees beside its workspace."""

    context: tuple[ContextPath, ...]
    links: Mapping[str, str]
    """Link names beside the agent's files, with the folder that each leads to."""


def build_agent_view(
    root: str,
    agent: str,
    rules: Mapping[str, MemoryRules],
    *,
    generated: Mapping[str, str] | None = None,
    shared: str = "",
    attached: Iterable[str] = (),
) -> AgentView:
    """Returns the view of one agent. `create_layout` has created all its folders.

    `generated` maps `servers` and `tools` to their folders in the root, if these have other names; `shared` is where
    agents publish their work, if not in the root; `attached` are folders of skills elsewhere.
    """
    places = {name: (generated or {}).get(name, name) for name in (SERVERS, TOOLS)}
    places |= {SKILLS: SKILLS, MEMORY: agent_folder(agent, MEMORY), TASKS: agent_folder(agent, TASKS)}
    links = {name: os.path.join(root, place) for name, place in places.items()}
    links[SHARED] = shared or os.path.join(root, SHARED)
    own = {MEMORY, TASKS}
    context = [ContextPath(path, _access(writable=name in own)) for name, path in links.items()]
    context += [ContextPath(os.path.join(root, skills_folder(owner)), Access.WRITE) for owner in (COMMUNITY, agent)]
    for other in reachable_agents(agent, MemoryAccess.READ, rules):
        if other != agent:
            path = os.path.join(root, agent_folder(other, MEMORY))
            context.append(ContextPath(path, _access(writable=may_access(agent, other, MemoryAccess.WRITE, rules))))
    context += [ContextPath(path) for path in attached]
    return AgentView(tuple(context), links)


def _access(*, writable: bool) -> Access:
    return Access.WRITE if writable else Access.READ
