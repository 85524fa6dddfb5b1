"""Opens the threads of a workspace, for the server that stores them and the command that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.assistant.threads.factory import ThreadServices, open_threads
from toolyard.core.ids import workspace_id

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.workspace.agent_paths import AgentPaths


def open_workspace_threads(paths: AgentPaths, config: Config) -> ThreadServices:
    """Opens the threads of a workspace, in its state folder or in Redis. Raises SystemFault or ConfigError."""
    return open_threads(config.assistant, paths.state, config.assistant.namespace or workspace_id(paths.root))
