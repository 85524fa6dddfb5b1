"""The dependencies that code mode gets from its Yard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.upstream import ServerListing

if TYPE_CHECKING:
    from toolyard.codemode.own_tools import OwnToolDispatcher
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.files.mounts import Mounts
    from toolyard.mcp_client import SharedServers
    from toolyard.policy.policy import Policy
    from toolyard.skills.validation import SkillChecks
    from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
    from toolyard.storage.audit_log import EventLog
    from toolyard.workspace.file_tool_detector import FilesystemToolDetector


@dataclass(frozen=True, slots=True)
class CodeModeDeps:
    """Configuration, policy, stores and callbacks for code mode."""

    config: Config
    settings: Settings
    policy: Policy
    audit: EventLog
    mounts: Mounts
    home: str
    """The folder with `servers/`, `tools/` and `skills/`: the workspace, or one that several agents share."""
    state: str
    """The state folder that belongs to `home`."""
    agent: str
    agent_id: str | None
    """The configured agent that was selected, if any."""
    on_connection: Callable[[str, int, bool], None]
    """Receives every host that code inside the sandbox tries to reach."""
    list_own_tools: Callable[[], ServerListing]
    """Lists Toolyard's own file tools as a server would."""
    on_authorize: Callable[[str, str], None] | None = None
    """Shows the user the address at which to sign in for a server."""
    detector: FilesystemToolDetector | None = None
    """Receives each call of an upstream or custom tool."""
    snapshots: Sequence[AutoSnapshots] = ()
    """Scheduled after each call that may change files: those of the workspace first, then of context paths."""
    session: str = ""
    """The session id of a client that sends none."""
    open_own_tools: Callable[[], OwnToolDispatcher] | None = None
    """Creates the dispatcher of Toolyard's own file tools, for code to call."""
    attached_skills: tuple[str, ...] = ()
    """Further folders with skills."""
    servers: SharedServers | None = None
    """Servers that agents share. Without them, code mode starts its own."""
    make_checks: Callable[[threading.Event], SkillChecks] | None = None
    """Creates the checks that a skill has to pass before it is saved. They stop when the event is set."""
