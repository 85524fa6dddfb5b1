"""The options a Yard is opened with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolyard.app.toolsets import Toolset, Toolsets, has_code_mode
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ErrorForm
from toolyard.core.permission_modes import PermissionMode

if TYPE_CHECKING:
    from toolyard.app.execution_mode import ToolInjection
    from toolyard.app.tool_provider import ToolProvider
    from toolyard.mcp_client import SharedServers


@dataclass(frozen=True, slots=True)
class YardOptions:
    """What a transport or command may choose; everything else comes from the configuration."""

    workspace: str
    config: Config
    settings: Settings = field(default_factory=Settings.from_environment)
    mode: PermissionMode | None = None
    agent: str | None = None
    toolset: Toolsets = Toolset.CLAUDE
    injection: ToolInjection | None = None
    """Selects the tools by the configuration's execution mode instead of by `toolset`."""
    tool_provider: ToolProvider | None = None
    """Serves these tools instead of the workspace's own."""
    state_home: str | None = None
    on_authorize: Callable[[str, str], None] | None = None
    """Shows the user the sign-in address of a server; None without a user."""
    servers: SharedServers | None = None
    """Upstream servers that the agents of a run share. Without them the yard starts its own."""
    begins_session: bool = False
    """Whether an agent starts to work with this yard, so that `fresh: true` takes effect."""
    notify: Callable[[str], None] | None = None
    """Shows the user a notice about the start."""
    errors: ErrorForm | None = None
    """How MCP clients receive errors of a call. None: as the configuration says."""
    session: str = ""
    """The session id for the audit log; empty for a new one."""

    @property
    def has_code_mode(self) -> bool:
        """Whether the selected tools include code mode."""
        if self.tool_provider is not None:
            return False
        return has_code_mode(self.toolset) if self.injection is None else self.injection.has_code_mode

    @property
    def error_form(self) -> ErrorForm:
        """The form in which clients receive errors."""
        default = ErrorForm.RESULT if self.tool_provider is None else ErrorForm.JSONRPC
        return self.errors or self.config.errors or default
