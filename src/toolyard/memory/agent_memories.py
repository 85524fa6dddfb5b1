"""The memories below one root: whose there are, and whose an agent may reach.

A Memories opens its root when it is first used and owns the handle; `close()` gives it back. Files are reached from
that handle and never through a link. What an agent may reach is `config/memory_access.py`'s to say. The policy is
asked by the tools, and the command line acts for the user, who may see everything.
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
    def __init__(self, paths: AgentPaths) -> None:
        self.agent = paths.agent
        self._path = paths.root
        self._agent_names = paths.agents
        # Without a layout nobody has a memory that is walled off, and the rules have nothing to open.
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
        """The path of a file of somebody's memory, as the policy judges it."""
        return os.path.join(self.root.path, agent_folder(agent, MEMORY), name)

    def readable_agents(self) -> tuple[str, ...]:
        """Whose memory the agent may read: its own first."""
        return reachable_agents(self.agent, MemoryAccess.READ, self._rules)

    def readable_by(self, agent: str) -> tuple[str, ...]:
        return reachable_agents(agent, MemoryAccess.READ, self._rules)

    def require_access(self, other: str, access: MemoryAccess) -> None:
        """Raises SecurityError when the agent may not do that with the memory of `other`."""
        if self._agent_names and other not in self._agent_names:
            known = ", ".join(self._agent_names)
            raise ValidationError.of("agent", f"there is no agent {other!r}", hint=f"There is: {known}.")
        require_access(self.agent, other, access, self._rules)

    def known_agents(self) -> tuple[str, ...]:
        """Everybody who has a memory or tasks here, and every agent of the layout; those of the layout first."""
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
    """Whether a folder's name is the name of the agent, too."""
    with contextlib.suppress(ValidationError):
        return folder_name(name) == name
    return False


def _has_memory_or_tasks(folder: int, name: str) -> bool:
    return any(os.access(f"{name}/{part}", os.F_OK, dir_fd=folder, follow_symlinks=False) for part in (MEMORY, TASKS))
