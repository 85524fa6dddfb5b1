"""The error of a sync without servers, which suggests a nearby server file of another program."""

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


def check_configured(codemode: CodeMode) -> None:
    """Raises ConfigError if nothing is configured and no earlier sync needs to be cleaned up.

    A configuration without servers is accepted: a program may have written it.
    """
    resolved, root = codemode.resolved_servers, codemode.root.path
    if (
        codemode.deps.config.source
        or resolved.entries
        or resolved.errors
        or len(codemode.custom)
        or codemode.custom.problems
        or codemode.catalog.servers()
    ):
        return
    if any(is_generated(root, name, codemode.deps.state) for name in (SERVERS, TOOLS)):
        return
    raise ConfigError("No servers are configured; nothing was written.", hint=_server_file_hint(root))


def _server_file_hint(root: str) -> str:
    for name in _KNOWN_SERVER_FILES:
        for path in (name, os.path.join(root, name)):
            if _has_servers(path):
                return f"{path} has servers: `toolyard sync --config {shlex.quote(path)}`."
    return "Pass a file with servers, yours or another program's: --config F."


def _has_servers(path: str) -> bool:
    """Whether the file has servers. It is only inspected: a file that was found is not used."""
    try:
        return os.path.isfile(path) and is_server_file(path)
    except ConfigError:
        return False
