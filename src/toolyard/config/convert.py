"""A backend's `cwd` and `permission_mode` become an `mcp_servers` entry for our own server.

This works on backend configurations as they are written (plain mappings), for platforms that hand them to their
own MCP client. The input is never changed. A folder is created when it is missing and never emptied: `fresh: true`
asks for an empty folder, and where that would need files to go away it is refused before anything is touched.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from toolyard.config.settings import Settings
from toolyard.config.suggest import did_you_mean
from toolyard.core.errors import ConfigError
from toolyard.core.modes import PermissionMode


class MCPFilesystemConverter:
    """Adds the file tools' server to a backend configuration that names a `cwd`."""

    def __init__(self, base: str | None = None) -> None:
        self.filesystem_server_name = "filesystem"
        self._base = base

    def should_add_filesystem_server(self, config: Mapping[str, Any]) -> bool:
        """True when the configuration names a folder; a permission mode alone has nothing to govern."""
        return bool(config.get("cwd"))

    def setup_workspace_directory(self, cwd: str, base: str | None = None, *, fresh: bool = False) -> str:
        """Makes sure the folder is there and returns its absolute path. Never removes anything."""
        path = self._absolute(cwd, base)
        if fresh and os.path.isdir(path) and os.listdir(path):
            raise ConfigError(
                f"`fresh: true` asks to empty {path}, which has files in it; nothing was touched.",
                hint="They would have to be kept as a snapshot first, which is not possible yet: "
                "name an empty or a new folder, or remove `fresh`.",
            )
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the workspace folder {path} cannot be made ({error.strerror}).",
                hint="Name a folder in `cwd` that you may create or that exists.",
            ) from None
        return path

    def generate_filesystem_mcp_server(
        self, cwd: str, permission_mode: str, base: str | None = None, *, fresh: bool = False
    ) -> dict[str, Any]:
        """The entry that starts our server on the folder, with this interpreter."""
        mode = _mode(permission_mode)
        workspace = self.setup_workspace_directory(cwd, base, fresh=fresh)
        return {
            "name": self.filesystem_server_name,
            "type": "stdio",
            "command": sys.executable,
            "args": ["-m", "toolyard", "mcp", "--workspace", workspace, "--permission-mode", mode],
        }

    def inject_filesystem_server(self, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration with our entry first in `mcp_servers`; the same object where there is no `cwd`."""
        if not self.should_add_filesystem_server(config):
            return config
        servers = _listed(config.get("mcp_servers"))
        mode = _mode(config.get("permission_mode"))
        fresh = config.get("fresh", False)
        if not isinstance(fresh, bool):
            raise ConfigError("`fresh` must be true or false.", hint="Write `fresh: true`, or leave it out.")
        entry = self.generate_filesystem_mcp_server(config["cwd"], mode, fresh=fresh)
        if not any(_name(server) == self.filesystem_server_name for server in servers):
            servers.insert(0, entry)
        converted = {key: copy.deepcopy(value) for key, value in config.items() if key != "mcp_servers"}
        return {**converted, "mcp_servers": servers}

    @classmethod
    def convert_config(cls, config: dict[str, Any], base: str | None = None) -> dict[str, Any]:
        """The whole conversion in one call; relative folders start at `base`, or where the process stands."""
        return cls(base).inject_filesystem_server(config)

    def _absolute(self, cwd: object, base: str | None) -> str:
        if not isinstance(cwd, str) or not cwd.strip() or "\0" in cwd:
            raise ConfigError("`cwd` must be the path of a folder.", hint='Write it as text, such as "work".')
        if cwd == "~" or cwd.startswith("~/"):
            cwd = Settings.from_environment().home + cwd[1:]
        return os.path.normpath(os.path.join(os.path.abspath(base or self._base or os.getcwd()), cwd))


def _mode(value: object) -> str:
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


def _name(server: object) -> object:
    return cast("Mapping[str, object]", server).get("name") if isinstance(server, Mapping) else server


def _listed(servers: object) -> list[Any]:
    """A copy of the servers as a list, whether they came as a list or by name."""
    if servers is None:
        return []
    if isinstance(servers, Mapping):
        by_name = cast("Mapping[str, object]", servers)
        return [_named(name, entry) for name, entry in by_name.items()]
    if isinstance(servers, (list, tuple)):
        entries = cast("list[object]", servers)
        if all(isinstance(entry, (str, Mapping)) for entry in entries):
            return [copy.deepcopy(entry) for entry in entries]
    raise ConfigError(
        "`mcp_servers` must be a list of entries and names, or a map of entries by name.",
        hint="Write `- name: weather` with its `command` beneath, or just `- weather`.",
    )


def _named(name: str, entry: object) -> object:
    if entry is None:
        return name
    if isinstance(entry, Mapping):
        given = copy.deepcopy(dict(cast("Mapping[str, object]", entry)))
        return {"name": name, **{key: value for key, value in given.items() if key != "name"}}
    raise ConfigError(
        f"`mcp_servers.{name}` must be a mapping.", hint="Give it a `command` or a `url`, or only its name."
    )
