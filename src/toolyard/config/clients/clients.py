"""The programs that an entry of ours can be put into: where their file lies, and what an entry looks like in it.

`Client` says this as data, read from the programs themselves: the file each one's own `mcp add` writes. The project's
file lies below the folder of the project, the user's where the program looks for it on this machine.
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
    name: str
    title: str
    section: str
    """The key of the file that holds the servers by name."""
    user_files: Callable[[Settings], tuple[str, ...]]
    """The files it reads for the user. The first that exists is the one to change, else the last is made."""
    project_files: tuple[str, ...]
    """The same, below a project's folder."""
    entry: Callable[[tuple[str, ...]], dict[str, Any]]
    """What makes it start a program."""
    variable_pattern: str = ""
    """A pattern of what it would replace in a text."""
    check_command: str = ""
    """The command that shows its servers, and whether they answer."""
    project_note: str = ""
    """What the user has to do before it uses a project's servers."""
    env_passthrough: Callable[[tuple[str, ...]], dict[str, Any]] = lambda _: {}
    """What makes it hand variables of its own on, by their names, whether they are set or not. Codex hands on next to
    nothing, Gemini CLI nothing that is called a key; the others hand on all they have."""
    tool_timeout: tuple[str, int] | None = None
    """The key of an entry that says how long a call may take, and how many of its units are a second. Without it
    Codex waits 60 s, opencode 5 s, Gemini CLI and Qwen Code 600 s. Claude Code, Cursor and VS Code have none."""

    def with_timeout(self, seconds: float | None) -> dict[str, Any]:
        """What of an entry lets a call take that long, where the client has such a setting."""
        if seconds is None or self.tool_timeout is None:
            return {}
        key, units = self.tool_timeout
        return {key: math.ceil(seconds * units)}

    def paths(self, scope: Scope, settings: Settings, folder: str) -> tuple[str, ...]:
        """Where the servers of that scope may be, best first."""
        if scope == "user":
            return self.user_files(settings)
        return tuple(os.path.join(folder, *path.split("/")) for path in self.project_files)

    def path(self, scope: Scope, settings: Settings, folder: str) -> str:
        """The file to change; it need not exist."""
        paths = self.paths(scope, settings, folder)
        return next((path for path in paths if os.path.lexists(path)), paths[-1])

    def first_expanded_word(self, words: tuple[str, ...]) -> str:
        """The first word in which the program would replace something, if there is one."""
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
    """As references, which the program fills in: no value gets into its file. What is not set becomes empty."""
    return {"env": {name: f"${name}" for name in variables}} if variables else {}


def _opencode_entry(words: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "local", "command": [*words], "enabled": True}


def _claude_files(settings: Settings) -> tuple[str, ...]:
    chosen = settings.client_folders.get("CLAUDE_CONFIG_DIR")
    # The first is what older versions wrote. Claude Code goes on with it where it is there.
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
            "Claude Code asks once, when it is opened there, whether it may start the project's servers.",
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
            project_note="Codex reads it in projects that it was told to trust.",
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
            "Gemini CLI reads it in folders that it was told to trust.",
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
