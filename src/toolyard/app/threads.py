"""Where the threads of a workspace are: the server that keeps them and the command that shows them both ask here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.core.ids import workspace_id
from toolyard.threads.opening import Opened, open_threads

if TYPE_CHECKING:
    from toolyard.app.home import Home
    from toolyard.config.models import Config


def threads_of(home: Home, config: Config) -> Opened:
    """The threads of a home's root, in its state folder or in Redis. Raises SystemFault or ConfigError."""
    return open_threads(config.assistant, home.state, config.assistant.namespace or workspace_id(home.root))
