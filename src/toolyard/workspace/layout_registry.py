"""Which layout a folder belongs to, where an agent of it works outside the root.

Such a folder has nothing of its own: its snapshots and memory lie with the root's. A note in the folder's own state
says so, for commands that are given there without the configuration. Our links in it are known by what they lead to,
so that whoever opens the folder without that configuration takes them for no part of the work.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from toolyard.core.agent_folder_names import AGENTS
from toolyard.core.errors import ToolyardError
from toolyard.core.paths import is_beneath
from toolyard.files.temp_names import temporary_name
from toolyard.storage.state_folder import ensure_state_dir, state_dir
from toolyard.workspace.layout import MEMORY, SERVERS, SHARED, SKILLS, TASKS, TOOLS

if TYPE_CHECKING:
    from toolyard.workspace.agent_paths import AgentPaths

_NOTE = "belongs-to.json"
_MOST_BYTES = 16_384
_NAMES = (SERVERS, TOOLS, SKILLS, MEMORY, TASKS, SHARED)
_OWN = (MEMORY, TASKS)


@dataclass(frozen=True, slots=True)
class LayoutMembership:
    root: str
    agent: str
    config: str = ""
    """The file that said so; empty where only the links do."""


def record_membership(home: AgentPaths, config: str) -> None:
    """Note down where the agent's folder belongs. Where that fails, commands only know less."""
    if not home.is_member or not home.has_separate_root or home.is_own_folder:
        return
    found = LayoutMembership(home.root, home.agent, os.path.abspath(config) if config else "")
    state_home = os.path.dirname(home.state)
    with contextlib.suppress(OSError, ToolyardError):
        if _read_note(home.workspace, state_home) != found:
            folder = ensure_state_dir(state_dir(state_home, home.workspace))
            temporary = os.path.join(folder, temporary_name())
            with open(temporary, "x", encoding="utf-8") as file:
                json.dump(asdict(found), file)
            os.replace(temporary, os.path.join(folder, _NOTE))


def find_membership(folder: str, state_home: str) -> LayoutMembership | None:
    """Of which layout `folder` (a real path) is, as its note says or else its links; None for any other folder."""
    return _read_note(folder, state_home) or _membership_from_links(folder)


def _read_note(folder: str, state_home: str) -> LayoutMembership | None:
    try:
        with open(os.path.join(state_dir(state_home, folder), _NOTE), encoding="utf-8") as file:
            found = LayoutMembership(**json.loads(file.read(_MOST_BYTES)))
    except (OSError, ValueError, TypeError):
        return None
    is_text = all(isinstance(value, str) for value in asdict(found).values())
    return found if is_text and os.path.isdir(found.root) else None


def layout_links(folder: str) -> list[str]:
    """The names of links that stand in `folder` and lead into one layout, as an agent of it is given them."""
    found = _membership_from_links(folder)
    if found is None:
        return []
    targets = {name: _link_target(folder, name) for name in _NAMES}
    # What is shared may lie anywhere.
    return [name for name, target in targets.items() if is_beneath(target, found.root) or (name == SHARED and target)]


def _membership_from_links(folder: str) -> LayoutMembership | None:
    for name in _OWN:
        agent_folder, part = os.path.split(_link_target(folder, name))
        agents, agent = os.path.split(agent_folder)
        if part == name and agent and os.path.basename(agents) == AGENTS:
            return LayoutMembership(os.path.dirname(agents), agent)
    return None


def _link_target(folder: str, name: str) -> str:
    """Where a link leads; nowhere where there is none, or it is relative, as ours never are."""
    try:
        target = os.readlink(os.path.join(folder, name))
    except OSError:
        return ""
    return target if os.path.isabs(target) else ""
