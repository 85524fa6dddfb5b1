"""The client programs that Toolyard can be installed in: the location of their file and the format of an entry.

`Client` describes this as data, taken from the files that each program's own `mcp add` writes. The project's file is
in the project's folder, the user's file where the program looks for it on this machine.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from toolyard.config.settings import Settings

Scope = Literal["user", "project"]
Entry = Mapping[str, Any]
_PROGRAM: Final = "toolyard"
_SERVER_COMMANDS: Final = (["mcp"], ["assistant"])


@dataclass(frozen=True, slots=True)
class Client:
    """A client program: the location of its files and the format of its entries."""

    name: str
    title: str
    section: str
    """The key of the file that contains the servers by name."""
    user_files: Callable[[Settings], tuple[str, ...]]
    """The user's files that it reads. The first that exists is edited, otherwise the last is created."""
    project_files: tuple[str, ...]
    """The same, in a project's folder."""
    entry: Callable[[tuple[str, ...]], dict[str, Any]]
    """Builds the entry that starts a program."""
    variable_pattern: str = ""
    """A regular expression of what it would expand in a text."""
    check_command: str = ""
    """The command that lists its servers and checks that they answer."""
    project_note: str = ""
    """What the user must do before it uses a project's servers."""
    env_passthrough: Callable[[tuple[str, ...]], dict[str, Any]] = lambda _: {}
    """Builds the part of an entry that passes variables on by name, whether or not they are set. Codex passes on
    almost no variables by itself, Gemini CLI none that are called a key; the others pass on all of them."""
    tool_timeout: tuple[str, int] | None = None
    """The entry's key for the time limit of a call, and its units per second. Without it Codex waits 60 s, opencode
    5 s, Gemini CLI and Qwen Code 600 s. Cursor and VS Code have no such key."""

    def with_timeout(self, seconds: float | None) -> dict[str, Any]:
        """Returns the part of an entry that sets the time limit of a call, if the client supports one."""
        if seconds is None or self.tool_timeout is None:
            return {}
        key, units = self.tool_timeout
        return {key: math.ceil(seconds * units)}

    def paths(self, scope: Scope, settings: Settings, folder: str) -> tuple[str, ...]:
        """Returns the files that may contain the servers of that scope, best first."""
        if scope == "user":
            return self.user_files(settings)
        return tuple(os.path.join(folder, *path.split("/")) for path in self.project_files)

    def path(self, scope: Scope, settings: Settings, folder: str) -> str:
        """Returns the file to edit; it need not exist."""
        paths = self.paths(scope, settings, folder)
        return next((path for path in paths if os.path.lexists(path)), paths[-1])

    def first_expanded_word(self, words: tuple[str, ...]) -> str:
        """Returns the first word in which the program would expand a variable; empty if there is none."""
        return next((word for word in words if self.variable_pattern and re.search(self.variable_pattern, word)), "")


def is_toolyard_entry(entry: object) -> bool:
    """Whether an entry, in any client's spelling, starts `toolyard mcp` or `toolyard assistant`."""
    if not isinstance(entry, Mapping):
        return False
    keys = cast("Mapping[str, Any]", entry)
    words = [*_as_list(keys.get("command")), *_as_list(keys.get("args", []))]
    if words[1:3] == ["-m", _PROGRAM]:
        return words[3:4] in _SERVER_COMMANDS
    return words[1:2] in _SERVER_COMMANDS and isinstance(words[0], str) and os.path.basename(words[0]) == _PROGRAM


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _stdio_entry(words: tuple[str, ...]) -> dict[str, Any]:
    return {"command": words[0], "args": [*words[1:]]}


def _typed_stdio_entry(words: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "stdio", **_stdio_entry(words)}


def _env_vars_by_name(variables: tuple[str, ...]) -> dict[str, Any]:
    return {"env_vars": [*variables]} if variables else {}


def _env_references(variables: tuple[str, ...]) -> dict[str, Any]:
    """Returns variables as references that the program expands, so that its file contains no values."""
    return {"env": {name: f"${name}" for name in variables}} if variables else {}


def _opencode_entry(words: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "local", "command": [*words], "enabled": True}


def _claude_files(settings: Settings) -> tuple[str, ...]:
    chosen = settings.client_folders.get("CLAUDE_CONFIG_DIR")
    # Older versions wrote the first file, and Claude Code still uses it if it exists.
    old = os.path.join(chosen or os.path.join(settings.home, ".claude"), ".config.json")
    return (old, os.path.join(chosen or settings.home, ".claude.json"))


def _codex_files(settings: Settings) -> tuple[str, ...]:
    folder = settings.client_folders.get("CODEX_HOME") or os.path.join(settings.home, ".codex")
    return (os.path.join(folder, "config.toml"),)


def _gemini_files(settings: Settings) -> tuple[str, ...]:
    home = settings.client_folders.get("GEMINI_CLI_HOME") or settings.home
    return (os.path.join(home, ".gemini", "settings.json"),)


def _qwen_files(settings: Settings) -> tuple[str, ...]:
    folder = settings.client_folders.get("QWEN_HOME") or os.path.join(settings.home, ".qwen")
    return (os.path.join(folder, "settings.json"),)


def _opencode_files(settings: Settings) -> tuple[str, ...]:
    folder = os.path.join(_config_home(settings), "opencode")
    return tuple(os.path.join(folder, name) for name in ("opencode.jsonc", "opencode.json"))


def _cursor_files(settings: Settings) -> tuple[str, ...]:
    return (os.path.join(settings.home, ".cursor", "mcp.json"),)


def _vscode_files(settings: Settings) -> tuple[str, ...]:
    return (os.path.join(_config_home(settings), "Code", "User", "mcp.json"),)


def _config_home(settings: Settings) -> str:
    return os.path.dirname(settings.config_home) or os.path.join(settings.home, ".config")


_SHELL: Final = r"\$(?:\{|\w)"
_BRACES: Final = r"\$\{"
CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude",
            "Claude Code",
            "mcpServers",
            _claude_files,
            (".mcp.json",),
            _typed_stdio_entry,
            _BRACES,
            "claude mcp list",
            "When opened in the project, Claude Code asks once whether it may start the project's servers.",
            tool_timeout=("timeout", 1000),
        ),
        Client(
            "codex",
            "Codex",
            "mcp_servers",
            _codex_files,
            (".codex/config.toml",),
            _stdio_entry,
            check_command="codex mcp list",
            project_note="Codex reads it only in projects that you have marked as trusted.",
            env_passthrough=_env_vars_by_name,
            tool_timeout=("tool_timeout_sec", 1),
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "mcpServers",
            _gemini_files,
            (".gemini/settings.json",),
            _stdio_entry,
            _SHELL,
            "gemini mcp list",
            "Gemini CLI reads it only in folders that you have marked as trusted.",
            env_passthrough=_env_references,
            tool_timeout=("timeout", 1000),
        ),
        Client(
            "qwen",
            "Qwen Code",
            "mcpServers",
            _qwen_files,
            (".qwen/settings.json",),
            _stdio_entry,
            _SHELL,
            "qwen mcp list",
            tool_timeout=("timeout", 1000),
        ),
        Client(
            "opencode",
            "opencode",
            "mcp",
            _opencode_files,
            (*("opencode.jsonc", ".opencode/opencode.jsonc", ".opencode/opencode.json"), "opencode.json"),
            _opencode_entry,
            r"\{(?:env|file):",
            "opencode mcp list",
            tool_timeout=("timeout", 1000),
        ),
        Client("cursor", "Cursor", "mcpServers", _cursor_files, (".cursor/mcp.json",), _typed_stdio_entry, _BRACES),
        Client("vscode", "VS Code", "servers", _vscode_files, (".vscode/mcp.json",), _typed_stdio_entry, _BRACES),
    )
}
