"""Converts a backend's `cwd` and `permission_mode` into an `mcp_servers` entry for Toolyard's own server.

It works on backend configurations as written (plain mappings), for platforms that pass them to their own MCP client.
The input is never changed. A missing folder is created; without `cwd` it is the folder that `toolyard run` gives the
agent, `toolyard_workspace/agents/<agent>/workspace`. `fresh`, `allowed_tools`, `exclude_tools` and the agent's name
become options of `toolyard mcp` and mean the same as in a configuration: a fresh folder is emptied when the server
starts, after a snapshot of its content.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolyard.config.settings import Settings
from toolyard.config.suggestions import did_you_mean
from toolyard.core.agent_folder_names import DEFAULT_AGENT, DEFAULT_ROOT, workspace_path
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import PermissionMode


class MCPFilesystemConverter:
    """Adds the file tools' server to a backend configuration that names a `cwd` or a `permission_mode`."""

    def __init__(self, base: str | None = None, agent: str | None = None) -> None:
        """`agent` owns the backend: its name is used in the audit log, in snapshots and in the path of its folder."""
        self.filesystem_server_name = "filesystem"
        self._base = base
        self._agent = agent

    def should_add_filesystem_server(self, config: Mapping[str, Any]) -> bool:
        """Whether the configuration names a folder or a permission mode."""
        return bool(config.get("cwd")) or config.get("permission_mode") is not None

    def setup_workspace_directory(self, cwd: str | None, base: str | None = None) -> str:
        """Creates the folder if it is missing and returns its absolute path. Never removes anything.

        Without `cwd` it is the agent's folder below the default root.
        """
        path = self._absolute(cwd, base)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the workspace folder {path} cannot be created ({error.strerror}).",
                hint="Set `cwd` to a folder that exists or that you may create.",
            ) from None
        return path

    def generate_filesystem_mcp_server(
        self, cwd: str | None, permission_mode: str, base: str | None = None, *, options: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Returns the entry that starts our server on the folder, with this interpreter and the extra `options`."""
        mode = _checked_permission_mode(permission_mode)
        workspace = self.setup_workspace_directory(cwd, base)
        return {
            "name": self.filesystem_server_name,
            "type": "stdio",
            "command": sys.executable,
            "args": ["-m", "toolyard", "mcp", "--workspace", workspace, "--permission-mode", mode, *options],
        }

    def inject_filesystem_server(self, config: dict[str, Any]) -> dict[str, Any]:
        """Returns the configuration with our entry first in `mcp_servers`, or the same object if none is needed."""
        if not self.should_add_filesystem_server(config):
            return config
        servers = _server_list(config.get("mcp_servers"))
        mode = _checked_permission_mode(config.get("permission_mode"))
        entry = self.generate_filesystem_mcp_server(config.get("cwd"), mode, options=self._options(config))
        if not any(_server_name(server) == self.filesystem_server_name for server in servers):
            servers.insert(0, entry)
        converted = {key: copy.deepcopy(value) for key, value in config.items() if key != "mcp_servers"}
        return {**converted, "mcp_servers": servers}

    @classmethod
    def convert_config(
        cls, config: dict[str, Any], base: str | None = None, agent: str | None = None
    ) -> dict[str, Any]:
        """Converts a configuration in one call; relative folders start at `base` or the working directory."""
        return cls(base, agent).inject_filesystem_server(config)

    def _options(self, config: Mapping[str, Any]) -> list[str]:
        fresh = config.get("fresh", False)
        if not isinstance(fresh, bool):
            raise ConfigError("`fresh` must be true or false.", hint="Write `fresh: true`, or leave it out.")
        options = [*(["--agent", self._agent] if self._agent else ()), *(["--fresh"] if fresh else ())]
        for key, option in (("allowed_tools", "--allow-tool"), ("exclude_tools", "--exclude-tool")):
            for pattern in _tool_patterns(key, config.get(key)):
                options += [option, pattern]
        return options

    def _absolute(self, cwd: object, base: str | None) -> str:
        start = os.path.abspath(base or self._base or os.getcwd())
        home = Settings.from_environment().home
        if cwd is not None and (not isinstance(cwd, str) or (cwd and not cwd.strip()) or "\0" in cwd):
            raise ConfigError("`cwd` must be the path of a folder.", hint='Write it as text, such as "work".')
        agent = self._agent or DEFAULT_AGENT
        return workspace_path(agent, cwd, base=start, root=os.path.join(start, DEFAULT_ROOT), home=home)


def _checked_permission_mode(value: object) -> str:
    if value is None:
        return PermissionMode.STRICT.value
    try:
        return PermissionMode(value).value
    except ValueError:
        known = [mode.value for mode in PermissionMode]
        raise ConfigError(
            f"invalid permission_mode {value!r}: it must be one of {', '.join(known)}.",
            hint=did_you_mean(str(value), known),
        ) from None


def _tool_patterns(key: str, value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        patterns = [each for each in cast("list[object]", value) if isinstance(each, str) and each]
        if len(patterns) == len(cast("list[object]", value)):
            return patterns
    raise ConfigError(f"`{key}` must be a list of patterns.", hint=f'Write it as `{key}: ["Read", "github.*"]`.')


def _server_name(server: object) -> object:
    return cast("Mapping[str, object]", server).get("name") if isinstance(server, Mapping) else server


def _server_list(servers: object) -> list[Any]:
    """Returns a copy of the servers as a list, given as a list or as a map by name."""
    if servers is None:
        return []
    if isinstance(servers, Mapping):
        by_name = cast("Mapping[str, object]", servers)
        return [_entry_with_name(name, entry) for name, entry in by_name.items()]
    if isinstance(servers, (list, tuple)):
        entries = cast("list[object]", servers)
        if all(isinstance(entry, (str, Mapping)) for entry in entries):
            return [copy.deepcopy(entry) for entry in entries]
    raise ConfigError(
        "`mcp_servers` must be a list of entries and names, or a map of entries by name.",
        hint="Write `- name: weather` with its `command` beneath, or just `- weather`.",
    )


def _entry_with_name(name: str, entry: object) -> object:
    if entry is None:
        return name
    if isinstance(entry, Mapping):
        given = copy.deepcopy(dict(cast("Mapping[str, object]", entry)))
        return {"name": name, **{key: value for key, value in given.items() if key != "name"}}
    raise ConfigError(
        f"`mcp_servers.{name}` must be a mapping.", hint="Give it a `command` or a `url`, or only its name."
    )
