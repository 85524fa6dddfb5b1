"""The folders of a layout.

    <root>/servers, tools                     generated, read-only
    <root>/skills/community, skills/<agent>   saved workflows
    <root>/agents/<agent>/workspace           where the agent works
    <root>/agents/<agent>/memory              its memory
    <root>/agents/<agent>/tasks               its current tasks

Any number of processes may create them at once, and repeatedly. Existing folders are left unchanged; a link in place
of a folder is refused.
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
"""In the state folder: records of shares, merges and the authors of changes."""
_SHARED_FOLDERS = (SERVERS, TOOLS, f"{SKILLS}/{COMMUNITY}", AGENTS)
_AGENTS_FOLDERS = (WORKSPACE, MEMORY, TASKS)


def previous_trees_folder(shared: str) -> str:
    """Returns where previous shared trees are kept: beside the shared folder, hidden from agents."""
    folder, name = os.path.split(shared)
    return os.path.join(folder, f".{name}.trees")


def skills_folder(owner: str) -> str:
    """Returns the folder of an agent's skills; `COMMUNITY` is for those of all agents."""
    return f"{SKILLS}/{owner if owner == COMMUNITY else folder_name(owner)}"


def create_layout(root: Root, agents: Iterable[str]) -> None:
    """Creates every missing folder."""
    folders = list(_SHARED_FOLDERS)
    for agent in agents:
        folders += [agent_folder(agent, part) for part in _AGENTS_FOLDERS]
        folders.append(skills_folder(agent))
    for folder in folders:
        ensure_folder(root, folder)
