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

import hashlib
import os
import re
from collections.abc import Iterable

from toolyard.core.errors import ValidationError
from toolyard.fs.roots import Root
from toolyard.workspace.places import ensure_folder

SERVERS, TOOLS, SKILLS, AGENTS = "servers", "tools", "skills", "agents"
COMMUNITY = "community"
WORKSPACE, MEMORY, TASKS, SHARED = "workspace", "memory", "tasks", "shared"
_SHARED_FOLDERS = (SERVERS, TOOLS, f"{SKILLS}/{COMMUNITY}", AGENTS)
_AGENTS_FOLDERS = (WORKSPACE, MEMORY, TASKS)

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = frozenset({COMMUNITY})
_LONGEST_NAME = 1_000
_STEM = 60
_DIGEST_BYTES = 5
_MARK = "~"
"""In no plain name, so that a spelling of ours is never another agent's own name."""


def folder_name(agent: str) -> str:
    """The one folder name of an agent: its own where that can be one, else a spelling that is always the same.

    Refused is what says nothing, and `community`, whose skills are everybody's.
    """
    if _PLAIN.fullmatch(agent) and agent not in _RESERVED:
        return agent
    if agent in _RESERVED or not agent.strip() or len(agent) > _LONGEST_NAME or not agent.isprintable():
        raise ValidationError.of(
            "agent", "is no name for an agent", hint="Use letters, digits, dots, dashes and underscores."
        )
    stem = _UNUSUAL.sub("-", agent).strip(".-_")[:_STEM] or "agent"
    return f"{stem}{_MARK}{hashlib.blake2b(agent.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def agent_folder(agent: str, part: str) -> str:
    """One of an agent's folders, relative to the root."""
    return f"{AGENTS}/{folder_name(agent)}/{part}"


def former_trees(shared: str) -> str:
    """Where what was shared before is kept: beside the shared folder, for no agent to see."""
    folder, name = os.path.split(shared)
    return os.path.join(folder, f".{name}.trees")


def skills_folder(owner: str) -> str:
    """Where an agent's skills are; `COMMUNITY` is everybody's."""
    return f"{SKILLS}/{owner if owner == COMMUNITY else folder_name(owner)}"


def create(root: Root, agents: Iterable[str]) -> None:
    """Make every folder that is missing."""
    folders = list(_SHARED_FOLDERS)
    for agent in agents:
        folders += [agent_folder(agent, part) for part in _AGENTS_FOLDERS]
        folders.append(skills_folder(agent))
    for folder in folders:
        ensure_folder(root, folder)
