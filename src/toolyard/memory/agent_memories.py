"""The memories of all agents below one root, and which of them an agent may access.

An AgentMemories opens its root on first use and owns the handle until `close()`. Files are opened relative to that
handle and never through a symbolic link. `config/memory_access.py` defines what an agent may access. The tools check
the policy; the command line acts for the user, who may see everything.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolyard.config.memory_access import MemoryAccess, reachable_agents, require_access
from toolyard.core.agent_folder_names import AGENTS, agent_folder, folder_name
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ValidationError
from toolyard.files.roots import Root
from toolyard.files.safe_paths import open_folder
from toolyard.memory.memory import Memory
from toolyard.memory.tasks import Tasks
from toolyard.workspace.layout import MEMORY, TASKS

if TYPE_CHECKING:
    from toolyard.config.models import Memory as MemoryRules
    from toolyard.workspace.agent_paths import AgentPaths


class AgentMemories(Closeable):
    """Memories and tasks below one root, as one agent may access them."""

    def __init__(self, paths: AgentPaths) -> None:
        self.agent = paths.agent
        self._path = paths.root
        self._agent_names = paths.agents
        # Without a layout no memory is isolated, so there is nothing for the rules to open.
        self._rules: Mapping[str, MemoryRules] = (paths.memory_rules or {}) if paths.has_layout else {}
        self._root: Root | None = None
        self._lock = threading.Lock()

    @property
    def root(self) -> Root:
        with self._lock:
            if self._root is None:
                self._root = Root(self._path)
            return self._root

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                self._root.close()

    def memory_of(self, agent: str) -> Memory:
        return Memory(self.root, agent)

    def tasks_of(self, agent: str) -> Tasks:
        return Tasks(self.root, agent)

    def file_of(self, agent: str, name: str) -> str:
        """Returns the path of a file in an agent's memory, for policy decisions."""
        return os.path.join(self.root.path, agent_folder(agent, MEMORY), name)

    def readable_agents(self) -> tuple[str, ...]:
        """Returns the agents whose memory this agent may read, its own first."""
        return reachable_agents(self.agent, MemoryAccess.READ, self._rules)

    def readable_by(self, agent: str) -> tuple[str, ...]:
        return reachable_agents(agent, MemoryAccess.READ, self._rules)

    def require_access(self, other: str, access: MemoryAccess) -> None:
        """Raises SecurityError if the agent may not access the memory of `other` in this way."""
        if self._agent_names and other not in self._agent_names:
            known = ", ".join(self._agent_names)
            raise ValidationError.of("agent", f"there is no agent {other!r}", hint=f"There is: {known}.")
        require_access(self.agent, other, access, self._rules)

    def known_agents(self) -> tuple[str, ...]:
        """Returns every agent of the layout, then every other agent that has a memory or tasks here."""
        found: list[str] = []
        folder = open_folder(self.root, AGENTS)
        if folder is not None:
            try:
                found = [
                    name
                    for name in sorted(os.listdir(folder))
                    if _is_agent_name(name) and _has_memory_or_tasks(folder, name)
                ]
            finally:
                os.close(folder)
        return tuple(dict.fromkeys((*self._agent_names, *found)))


def _is_agent_name(name: str) -> bool:
    """Whether the folder's name is also the agent's name."""
    with contextlib.suppress(ValidationError):
        return folder_name(name) == name
    return False


def _has_memory_or_tasks(folder: int, name: str) -> bool:
    return any(os.access(f"{name}/{part}", os.F_OK, dir_fd=folder, follow_symlinks=False) for part in (MEMORY, TASKS))
