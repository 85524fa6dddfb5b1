"""What one agent sees of a layout beside its workspace: which folders it may read or write, and their short names.

Pure data. The folders are seen at their own paths, so that every kind of sandbox can show them; a link of the short
name beside the agent's files leads to each. An inner folder may be writable where the outer one is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.config.memory_access import MemoryAccess, may_access, reachable_agents
from toolyard.core.agent_folder_names import COMMUNITY, agent_folder
from toolyard.core.permission_modes import Access
from toolyard.policy.roots import ContextPath
from toolyard.workspace.layout import MEMORY, SERVERS, SHARED, SKILLS, TASKS, TOOLS, skills_folder

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules


@dataclass(frozen=True, slots=True)
class AgentView:
    context: tuple[ContextPath, ...]
    links: Mapping[str, str]
    """Name beside the agent's files: the folder that it leads to."""


def build_agent_view(
    root: str,
    agent: str,
    rules: Mapping[str, MemoryRules],
    *,
    generated: Mapping[str, str] | None = None,
    shared: str = "",
    attached: Iterable[str] = (),
) -> AgentView:
    """The folders of one agent, all of which `create` has made.

    `generated` says where `servers` and `tools` lie in the root when that is not under those names, `shared` where
    agents publish their work when that is not in the root, and `attached` are folders of skills elsewhere.
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
