"""Toolyard: one workspace for every agent.

The public API is what this module exports; docs/api.md describes it. Each name is imported when it is first used, so
that `import toolyard` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolyard.api.conversion import convert_config
    from toolyard.api.team import run_team
    from toolyard.api.workspace import ToolInfo, Workspace
    from toolyard.bridge import BridgeHost, FileCache, FilesystemBridge, PathInfo, PathValidator, SecurityPolicy
    from toolyard.config.loader import load_config
    from toolyard.config.mcp_filesystem_converter import MCPFilesystemConverter
    from toolyard.config.models import Config
    from toolyard.core.actions import Action, Decision, Effect
    from toolyard.core.calls import Result
    from toolyard.core.errors import (
        ConfigError,
        FieldError,
        ProviderError,
        SecurityError,
        SystemFault,
        ToolError,
        ToolyardError,
        UnknownToolError,
        ValidationError,
    )
    from toolyard.core.permission_modes import PermissionMode
    from toolyard.drivers.api import drive
    from toolyard.drivers.mcp_host import Host
    from toolyard.drivers.messages import (
        Fault,
        Finished,
        ImageData,
        Message,
        ResultStatus,
        SessionStarted,
        Status,
        TextDelta,
        Tokens,
        ToolCall,
        ToolResult,
        Usage,
    )
    from toolyard.policy.policy import Policy
    from toolyard.team.events import RunFinished, TeamEvent
    from toolyard.team.options import RunOptions
    from toolyard.team.run import TeamRun
    from toolyard.workspace.file_tool_detector import FilesystemToolDetector

__version__ = "0.1.0"

__all__ = [
    "Action",
    "BridgeHost",
    "Config",
    "ConfigError",
    "Decision",
    "Effect",
    "Fault",
    "FieldError",
    "FileCache",
    "FilesystemBridge",
    "FilesystemToolDetector",
    "Finished",
    "Host",
    "ImageData",
    "MCPFilesystemConverter",
    "Message",
    "PathInfo",
    "PathValidator",
    "PermissionMode",
    "Policy",
    "ProviderError",
    "Result",
    "ResultStatus",
    "RunFinished",
    "RunOptions",
    "SecurityError",
    "SecurityPolicy",
    "SessionStarted",
    "Status",
    "SystemFault",
    "TeamEvent",
    "TeamRun",
    "TextDelta",
    "Tokens",
    "ToolCall",
    "ToolError",
    "ToolInfo",
    "ToolResult",
    "ToolyardError",
    "UnknownToolError",
    "Usage",
    "ValidationError",
    "Workspace",
    "__version__",
    "convert_config",
    "drive",
    "load_config",
    "run_team",
]

_MODULES = {
    "toolyard.api.conversion": ("convert_config",),
    "toolyard.api.team": ("run_team",),
    "toolyard.api.workspace": ("ToolInfo", "Workspace"),
    "toolyard.bridge": (
        "BridgeHost",
        "FileCache",
        "FilesystemBridge",
        "PathInfo",
        "PathValidator",
        "SecurityPolicy",
    ),
    "toolyard.config.loader": ("load_config",),
    "toolyard.config.mcp_filesystem_converter": ("MCPFilesystemConverter",),
    "toolyard.config.models": ("Config",),
    "toolyard.core.actions": ("Action", "Decision", "Effect"),
    "toolyard.core.calls": ("Result",),
    "toolyard.core.errors": (
        "ConfigError",
        "FieldError",
        "ProviderError",
        "SecurityError",
        "SystemFault",
        "ToolError",
        "ToolyardError",
        "UnknownToolError",
        "ValidationError",
    ),
    "toolyard.core.permission_modes": ("PermissionMode",),
    "toolyard.drivers.api": ("drive",),
    "toolyard.drivers.mcp_host": ("Host",),
    "toolyard.drivers.messages": (
        "Fault",
        "Finished",
        "ImageData",
        "Message",
        "ResultStatus",
        "SessionStarted",
        "Status",
        "TextDelta",
        "Tokens",
        "ToolCall",
        "ToolResult",
        "Usage",
    ),
    "toolyard.policy.policy": ("Policy",),
    "toolyard.team.events": ("RunFinished", "TeamEvent"),
    "toolyard.team.options": ("RunOptions",),
    "toolyard.team.run": ("TeamRun",),
    "toolyard.workspace.file_tool_detector": ("FilesystemToolDetector",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == __name__:
            raise
        raise ImportError(
            f"toolyard.{name} needs the package {error.name!r}, which is not installed. Install "
            "`toolyard[agents,team]`."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
