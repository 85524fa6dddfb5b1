"""What code mode is given by the Yard it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolyard.core.upstream import ServerListing, ToolSchema

if TYPE_CHECKING:
    from toolyard.codemode.own_tools import OwnToolDispatcher
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.files.mounts import Mounts
    from toolyard.mcp_client import SharedServers
    from toolyard.policy.policy import Policy
    from toolyard.skills.validation import SkillChecks
    from toolyard.storage.audit_recorder import EventLog


@dataclass(frozen=True, slots=True)
class CodeModeDeps:
    config: Config
    settings: Settings
    policy: Policy
    audit: EventLog
    mounts: Mounts
    home: str
    """The folder that holds `servers/`, `tools/` and `skills/`: the workspace, or one that several agents share."""
    state: str
    """The state folder that belongs to `home`."""
    agent: str
    agent_id: str | None
    """Which agent of the configuration was named, if one was."""
    on_connection: Callable[[str, int, bool], None]
    """Told of every host that something inside wanted to reach."""
    list_own_tools: Callable[[], ServerListing]
    """Lists our own file tools as a server would."""
    on_authorize: Callable[[str, str], None] | None = None
    """Shows the user the address to sign in at for a server."""
    on_called: Callable[[str, ToolSchema, Mapping[str, Any], bool], None] = lambda _name, _schema, _given, _is_ok: (
        None
    )
    """Told of each call of a tool of somebody else's."""
    open_own_tools: Callable[[], OwnToolDispatcher] | None = None
    """Creates the dispatcher of our own file tools, for code to call."""
    attached_skills: tuple[str, ...] = ()
    """Folders of skills elsewhere."""
    servers: SharedServers | None = None
    """Servers that agents share. Without them, code mode has its own."""
    make_checks: Callable[[threading.Event], SkillChecks] | None = None
    """What a skill has to pass before it is kept. They stop when the event is set."""
