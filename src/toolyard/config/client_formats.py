"""Describes how each program stores MCP servers: their place in its file, timeouts and variable syntax.

`Dialect` describes this as data. Entries are translated to the form of `ServerEntry`, with variables in the syntax of
`expansion`; for a dialect without variables, `${` is escaped so that it remains text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from toolyard.config.client_variables import VariableSyntax, variable_translator

TimeoutUnit = Literal["seconds", "milliseconds", "either"]

_MIN_MILLISECONDS: Final = 1_000
"""A timeout without a known unit is in milliseconds from this value on: 1,000 seconds would be implausibly long."""
IGNORED_KEYS: Final = frozenset(
    {
        *(
            "alwaysAllow",
            "always_allow",
            "autoApprove",
            "auto_approve",
            "trust",
            "approval",
            "default_tools_approval_mode",
        ),
        *("source", "settings", "gallery", "version", "dev", "id", "icon", "title", "required", "authProviderType"),
        *("targetAudience", "targetServiceAccount", "watchPaths", "disabledReason", "fromGalleryId", "isActive"),
        *("remote", "tools", "supports_parallel_tool_calls", "experimental_environment", "$schema"),
        *("authorizationUrl", "tokenUrl", "issuer", "audiences", "tokenParamName", "registrationUrl"),
    }
)
"""Keys of other programs that have no effect here. In particular, their approvals are never honoured."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one program writes server entries."""

    name: str
    timeouts: TimeoutUnit = "either"
    variables: VariableSyntax = "braces"
    timeout_key: str = "timeout"
    """Which limit its `timeout` sets: a call (`timeout`) or the start (`startup_timeout`)."""


PLAIN: Final = Dialect("plain", timeouts="seconds", variables="ours")
CLAUDE: Final = Dialect("Claude Code", timeouts="milliseconds")
CLAUDE_DESKTOP: Final = Dialect("Claude Desktop", variables="none")
CURSOR: Final = Dialect("Cursor", variables="editor")
WINDSURF: Final = Dialect("Windsurf", variables="editor")
CLINE: Final = Dialect("Cline", timeouts="seconds", variables="editor")
VSCODE: Final = Dialect("VS Code", variables="editor")
ZED: Final = Dialect("Zed", variables="none")
CODEX: Final = Dialect("Codex", timeouts="seconds", variables="none")
GEMINI: Final = Dialect("Gemini", timeouts="milliseconds", variables="shell")
OPENCODE: Final = Dialect("opencode", timeouts="milliseconds", variables="curly", timeout_key="startup_timeout")
MCP_JSON: Final = Dialect("mcpServers")

_DIALECT_BY_FILE: Final = {
    **dict.fromkeys((".mcp.json", ".claude.json"), CLAUDE),
    "claude_desktop_config.json": CLAUDE_DESKTOP,
    **dict.fromkeys(("cline_mcp_settings.json", "mcp_settings.json"), CLINE),
    "mcp_config.json": WINDSURF,
}
_DIALECT_BY_FOLDER: Final = {
    ".cursor": CURSOR,
    ".vscode": VSCODE,
    ".codeium": WINDSURF,
    "windsurf": WINDSURF,
    ".roo": CLINE,
    ".gemini": GEMINI,
    ".qwen": GEMINI,
    ".claude": CLAUDE,
    ".codex": CODEX,
    ".zed": ZED,
}


@dataclass(frozen=True, slots=True)
class LocatedServers:
    """The servers of a document, not yet translated."""

    dialect: Dialect
    servers: Mapping[str, Any] | list[Any]
    inputs: Mapping[str, str | None]
    """The inputs that an editor would prompt for, by id, with their defaults."""


def locate_servers(document: Any, path: str) -> LocatedServers | None:
    """Returns the servers in a document, or None if it contains none."""
    if isinstance(document, list):
        return LocatedServers(PLAIN, cast("list[Any]", document), {})
    if not isinstance(document, Mapping):
        return None
    keys = cast("Mapping[str, Any]", document)
    places: tuple[tuple[str, Dialect], ...] = (
        *(("mcpServers", dialect_for_path(path)), ("amp.mcpServers", MCP_JSON), ("context_servers", ZED)),
        *(("mcp_servers", CODEX if path.endswith(".toml") else PLAIN), ("available_mcp_servers", PLAIN)),
        ("servers", VSCODE if "inputs" in keys or not path.endswith((".yaml", ".yml")) else PLAIN),
    )
    for key, dialect in places:
        if isinstance(keys.get(key), (Mapping, list)):
            return LocatedServers(dialect, keys[key], _input_defaults(keys))
    section = keys.get("mcp")
    if isinstance(section, Mapping):
        inner = cast("Mapping[str, Any]", section)
        servers = inner.get("servers")
        if isinstance(servers, Mapping) and not {"type", "command", "url"} & set(cast("Mapping[str, Any]", servers)):
            return LocatedServers(VSCODE, cast("Mapping[str, Any]", servers), _input_defaults(inner))
        return LocatedServers(OPENCODE, inner, {})
    return (
        LocatedServers(PLAIN, keys, {})
        if keys and all(_looks_like_an_entry(value) for value in keys.values())
        else None
    )


def dialect_for_path(path: str) -> Dialect:
    """Returns the dialect of a file with `mcpServers`, from the file's name and folder."""
    folder, name = os.path.split(path)
    if name in _DIALECT_BY_FILE:
        return _DIALECT_BY_FILE[name]
    return next(
        (_DIALECT_BY_FOLDER[part] for part in reversed(folder.split(os.sep)) if part in _DIALECT_BY_FOLDER), MCP_JSON
    )


def project_folder(path: str) -> str:
    """Returns the project folder of a file: its own folder, or the parent of a program's dot folder."""
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder) in _DIALECT_BY_FOLDER else folder


def translate_entry(raw: Mapping[str, Any], found: LocatedServers, project: str, home: str) -> dict[str, Any]:
    """Returns one entry with the values that `ServerEntry` expects; `ServerEntry` itself renames the keys."""
    entry = _flatten_command(dict(raw))
    text = variable_translator(found.dialect.variables, found.inputs, project, home)
    for key in ("command", "args", "env", "environment", "headers", "http_headers", "oauth", "auth"):
        if key in entry:
            entry[key] = _map_strings(entry[key], text)
    for key in ("cwd", "url", "httpUrl", "serverUrl", "envFile", "env_file", "workingDirectory"):
        if isinstance(entry.get(key), str):
            entry[key] = text(entry[key])
    _codex_variables(entry)
    if isinstance(entry.get("auth"), Mapping):
        entry.setdefault("oauth", entry.pop("auth"))
    if "startup_timeout_ms" in entry:
        milliseconds = entry.pop("startup_timeout_ms")
        entry.setdefault("startup_timeout", _timeout_seconds(milliseconds, "milliseconds"))
    if "timeout" in entry:
        entry[found.dialect.timeout_key] = _timeout_seconds(entry.pop("timeout"), found.dialect.timeouts)
    if "tools" in entry and isinstance(entry["tools"], list):
        entry["allowed_tools"] = entry.pop("tools")
    return entry


def _looks_like_an_entry(value: object) -> bool:
    wanted = {"command", "url", "httpUrl", "serverUrl"}
    return isinstance(value, Mapping) and bool(wanted & set(cast("Mapping[str, Any]", value)))


def _input_defaults(keys: Mapping[str, Any]) -> dict[str, str | None]:
    listed = keys.get("inputs")
    found: dict[str, str | None] = {}
    for item in cast("list[Any]", listed) if isinstance(listed, list) else []:
        if isinstance(item, Mapping):
            asked = cast("Mapping[str, Any]", item)
            default = asked.get("default")
            found[str(asked.get("id"))] = default if isinstance(default, str) else None
    return found


def _flatten_command(entry: dict[str, Any]) -> dict[str, Any]:
    """Flattens the format of older Zed versions, `command: {path, args, env}`."""
    command = entry.get("command")
    if not isinstance(command, Mapping):
        return entry
    inner = dict(cast("Mapping[str, Any]", command))
    del entry["command"]
    if "path" in inner:
        inner["command"] = inner.pop("path")
    return {**entry, **{key: value for key, value in inner.items() if value is not None}}


def _codex_variables(entry: dict[str, Any]) -> None:
    """Translates Codex's separate keys for variables into variables in headers and `env`."""
    headers = _copy_mapping(entry.get("http_headers") or entry.get("headers"))
    before = dict(headers)
    token = entry.pop("bearer_token_env_var", None)
    if isinstance(token, str):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    named = entry.pop("env_http_headers", None)
    if isinstance(named, Mapping):
        headers.update({key: f"${{{name}}}" for key, name in cast("Mapping[str, Any]", named).items()})
    if headers != before:
        entry.pop("http_headers", None)
        entry["headers"] = headers
    passed = entry.pop("env_vars", None)
    if isinstance(passed, list):
        # Codex passes on the variables that are set and ignores unset ones.
        names = [name for name in cast("list[Any]", passed) if isinstance(name, str)]
        entry["env"] = {**{name: f"${{{name}:-}}" for name in names}, **_copy_mapping(entry.get("env"))}


def _copy_mapping(value: Any) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _timeout_seconds(value: Any, unit: TimeoutUnit) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    in_milliseconds = unit == "milliseconds" or (unit == "either" and value >= _MIN_MILLISECONDS)
    return value / 1_000 if in_milliseconds else value


def _map_strings(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_map_strings(item, text) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {key: _map_strings(item, text) for key, item in cast("Mapping[str, Any]", value).items()}
    return value
