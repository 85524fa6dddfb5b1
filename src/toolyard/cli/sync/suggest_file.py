"""A first sync with nothing to ask: said as such, with the server file of another program that lies beside."""

from __future__ import annotations

import os
import shlex

from toolyard.codemode.generated_folder import SERVERS, TOOLS, is_generated
from toolyard.codemode.service import CodeMode
from toolyard.config.server_files import is_server_file
from toolyard.core.errors import ConfigError

_KNOWN_SERVER_FILES = (
    ".mcp.json",
    "mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".gemini/settings.json",
    ".codex/config.toml",
    ".roo/mcp.json",
    "opencode.json",
)


def check_configured(mode: CodeMode) -> None:
    """Raises ConfigError where nobody configured anything, and there is nothing of an earlier sync to take back.

    A configuration without servers is one: a program may have written it.
    """
    resolved, root = mode.resolved_servers, mode.root.path
    if (
        mode.deps.config.source
        or resolved.entries
        or resolved.errors
        or len(mode.custom)
        or mode.custom.problems
        or mode.catalog.servers()
    ):
        return
    if any(is_generated(root, name, mode.deps.state) for name in (SERVERS, TOOLS)):
        return
    raise ConfigError("No servers are configured; nothing was written.", hint=_server_file_hint(root))


def _server_file_hint(root: str) -> str:
    for name in _KNOWN_SERVER_FILES:
        for path in (name, os.path.join(root, name)):
            if _has_servers(path):
                return f"There are some in {path}: `toolyard sync --config {shlex.quote(path)}`."
    return "Name a file that has them, yours or another program's: --config F."


def _has_servers(path: str) -> bool:
    """Only looked at: what a file that was merely found says is not done."""
    try:
        return os.path.isfile(path) and is_server_file(path)
    except ConfigError:
        return False
