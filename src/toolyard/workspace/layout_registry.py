"""Records which layout a folder belongs to, if an agent of it works outside the root.

Such a folder has no state of its own: its snapshots and memory are with the root's. A note in the folder's state
names the layout, for commands that run there without the configuration. Toolyard's links in the folder are recognised
by their targets, so that a command without that configuration does not treat them as the user's work.
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
    """The layout and the agent that a folder belongs to."""

    root: str
    agent: str
    config: str = ""
    """The configuration file that said so; empty if only the links do."""


def record_membership(home: AgentPaths, config: str) -> None:
    """Records where the agent's folder belongs. Failures are ignored: then commands only know less."""
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
    """Returns the layout of `folder` (a real path), from its note or else its links; None for any other folder."""
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
    """Returns the names of links in `folder` that lead into one layout, as its agents have them."""
    found = _membership_from_links(folder)
    if found is None:
        return []
    targets = {name: _link_target(folder, name) for name in _NAMES}
    # The shared folder may lie anywhere.
    return [name for name, target in targets.items() if is_beneath(target, found.root) or (name == SHARED and target)]


def _membership_from_links(folder: str) -> LayoutMembership | None:
    for name in _OWN:
        agent_folder, part = os.path.split(_link_target(folder, name))
        agents, agent = os.path.split(agent_folder)
        if part == name and agent and os.path.basename(agents) == AGENTS:
            return LayoutMembership(os.path.dirname(agents), agent)
    return None


def _link_target(folder: str, name: str) -> str:
    """Returns the target of a link; empty if there is no link or it is relative, which Toolyard's links never are."""
    try:
        target = os.readlink(os.path.join(folder, name))
    except OSError:
        return ""
    return target if os.path.isabs(target) else ""
