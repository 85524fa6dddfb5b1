"""`convert_config`: a backend's `cwd` and `permission_mode` as an MCP server entry."""

from __future__ import annotations

from typing import Any

from toolyard.config.mcp_filesystem_converter import MCPFilesystemConverter


def convert_config(config: dict[str, Any], *, base: str | None = None, agent: str | None = None) -> dict[str, Any]:
    """Returns a backend configuration with the file tools as the first entry of `mcp_servers`.

    Args:
        config: A backend configuration, such as `{"type": "gemini", "cwd": "work"}`. It is not changed.
        base: The folder that a relative `cwd` starts at. Default: the current folder.
        agent: The agent's name in the audit log, in snapshots and in the path of its folder.

    Returns:
        A copy with the entry; `config` itself if it has neither `cwd` nor `permission_mode`.

    Raises:
        ConfigError: A value cannot be used, or the folder cannot be created.

    Example:
        ```python
        from toolyard import convert_config

        backend = convert_config({"type": "gemini", "cwd": "work", "permission_mode": "acceptEdits"})
        print(backend["mcp_servers"][0]["name"])
        ```

    """
    return MCPFilesystemConverter.convert_config(config, base, agent)
