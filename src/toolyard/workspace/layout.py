"""The folders of a workspace.

    <root>/servers, tools                     generated, read-only
    <root>/skills/community, skills/<agent>   kept workflows
    <root>/agents/<agent>/workspace           where the agent works
    <root>/agents/<agent>/memory              what it remembers
    <root>/agents/<agent>/tasks               what it is doing

Any number of processes may create them at once, and again. What is there is left as it is; a link in the place of a
folder is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from toolyard.core.agent_folder_names import AGENTS, COMMUNITY, WORKSPACE, agent_folder, folder_name
from toolyard.files.roots import Root
from toolyard.files.safe_paths import ensure_folder

SERVERS, TOOLS, SKILLS = "servers", "tools", "skills"
MEMORY, TASKS, SHARED = "memory", "tasks", "shared"
SHARING = "sharing"
"""In the state folder: records of who shared, merged and changed what."""
_SHARED_FOLDERS = (SERVERS, TOOLS, f"{SKILLS}/{COMMUNITY}", AGENTS)
_AGENTS_FOLDERS = (WORKSPACE, MEMORY, TASKS)


def previous_trees_folder(shared: str) -> str:
    """Where what was shared before is kept: beside the shared folder, for no agent to see."""
    folder, name = os.path.split(shared)
    return os.path.join(folder, f".{name}.trees")


def skills_folder(owner: str) -> str:
    """Where an agent's skills are; `COMMUNITY` is everybody's."""
    return f"{SKILLS}/{owner if owner == COMMUNITY else folder_name(owner)}"


def create_layout(root: Root, agents: Iterable[str]) -> None:
    """Make every folder that is missing."""
    folders = list(_SHARED_FOLDERS)
    for agent in agents:
        folders += [agent_folder(agent, part) for part in _AGENTS_FOLDERS]
        folders.append(skills_folder(agent))
    for folder in folders:
        ensure_folder(root, folder)
