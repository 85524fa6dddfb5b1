"""Where the threads of a workspace are: the server that keeps them and the command that shows them both ask here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.assistant.threads.factory import Opened, open_threads
from toolyard.core.ids import workspace_id

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.workspace.agent_paths import Home


def threads_of(home: Home, config: Config) -> Opened:
    """The threads of a home's root, in its state folder or in Redis. Raises SystemFault or ConfigError."""
    return open_threads(config.assistant, home.state, config.assistant.namespace or workspace_id(home.root))
