"""What one agent sees of a workspace: which folder is mounted where, and whether it may write there. Pure data.

Whoever builds the sandbox mounts them, in this order: a later mount covers an earlier one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.sandbox.spec import Mount
from toolyard.workspace.layout import (
    COMMUNITY,
    MEMORY,
    SERVERS,
    SHARED,
    SKILLS,
    TASKS,
    TOOLS,
    WORKSPACE,
    agent_folder,
    folder_name,
    skills_folder,
)
from toolyard.workspace.memory.access import Wish, may, reachable

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules


@dataclass(frozen=True, slots=True)
class View:
    """Where the agent stands, and what is mounted there."""

    workspace: str
    mounts: tuple[Mount, ...]


def view(
    root: str,
    agent: str,
    rules: Mapping[str, MemoryRules],
    *,
    workspace: str = "",
    shared: Mapping[str, str] | None = None,
    attached: Iterable[str] = (),
) -> View:
    """The folders of one agent, all of which `create` has made.

    `workspace` is where it works when that is not in the root. `shared` are the folders to show of its peers, by
    name; `attached` are folders of skills elsewhere. The memory of another agent is seen at its own path.
    """
    own = workspace or os.path.join(root, agent_folder(agent, WORKSPACE))

    def beside(source: str, target: str, *, writable: bool = False) -> Mount:
        return Mount(os.path.join(root, source), writable, os.path.join(own, target))

    mounts = [beside(SERVERS, SERVERS), beside(TOOLS, TOOLS), beside(SKILLS, SKILLS)]
    mounts += [beside(skills_folder(owner), skills_folder(owner), writable=True) for owner in (COMMUNITY, agent)]
    mounts += [beside(agent_folder(agent, part), part, writable=True) for part in (MEMORY, TASKS)]
    for other in reachable(agent, Wish.READ, rules):
        if other != agent:
            source = os.path.join(root, agent_folder(other, MEMORY))
            mounts.append(Mount(source, may(agent, other, Wish.WRITE, rules)))
    for peer, source in (shared or {}).items():
        if peer != agent:
            mounts.append(Mount(source, target=os.path.join(own, SHARED, folder_name(peer))))
    mounts += [Mount(source) for source in attached]
    return View(own, tuple(mounts))
