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
    """What a surface may choose; everything else comes from the configuration."""

    workspace: str
    config: Config
    settings: Settings = field(default_factory=Settings.from_environment)
    mode: PermissionMode | None = None
    agent: str | None = None
    toolset: Toolsets = Toolset.CLAUDE
    injection: ToolInjection | None = None
    """Choose the tools in this way, as the configuration's execution mode says, and not by `toolset`."""
    tool_provider: ToolProvider | None = None
    """Serve these and no other tools."""
    state_home: str | None = None
    on_authorize: Callable[[str, str], None] | None = None
    """Shows the user the address to sign in at for a server; None where nobody could."""
    servers: SharedServers | None = None
    """Upstream servers that the agents of a run share. Without them, the yard starts its own."""
    begins_session: bool = False
    """Whether an agent sets to work with this, so that a folder that is to start fresh does."""
    notify: Callable[[str], None] | None = None
    """Tells the user what was done to start."""
    errors: ErrorForm | None = None
    """How MCP clients are answered when a call fails. None: as the configuration says."""
    session: str = ""
    """What the audit log calls the session; a fresh id where it is empty."""

    @property
    def has_code_mode(self) -> bool:
        if self.tool_provider is not None:
            return False
        return has_code_mode(self.toolset) if self.injection is None else self.injection.has_code_mode

    @property
    def error_form(self) -> ErrorForm:
        default = ErrorForm.RESULT if self.tool_provider is None else ErrorForm.JSONRPC
        return self.errors or self.config.errors or default
