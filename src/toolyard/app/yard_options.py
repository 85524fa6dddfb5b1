"""The options a Yard is opened with, and the tools that it may serve instead of a workspace's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolyard.app.toolsets import Toolset, Toolsets, has_code_mode
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import ErrorForm
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.tool import Tool

if TYPE_CHECKING:
    from toolyard.app.execution_mode import ToolInjection
    from toolyard.mcp_client import SharedServers


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """The URI template of a kind of MCP resource."""

    name: str
    uri: str
    description: str


@dataclass(frozen=True, slots=True)
class ToolProvider:
    """Tools, resources and instructions that replace those of a workspace, such as the assistant's.

    They use the same dispatcher, policy, audit log and transports as all others. The Yard that serves a ToolProvider
    closes it after the last call has ended.
    """

    tools: Mapping[str, Tool[Any]]
    resources: Mapping[str, Tool[Any]]
    """The tools that answer resource requests, by MCP method."""
    templates: tuple[ResourceTemplate, ...]
    instructions: str
    """The instructions that a client receives when it connects."""
    warm_up: Callable[[], None]
    """Prepares the first call. Runs in a thread after a client has listed the tools."""
    close: Callable[[], None]


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
