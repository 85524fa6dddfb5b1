"""Where each program keeps its servers in its file, what its entries mean, and how it spells variables.

`Dialect` says this as data. Entries leave here in the spelling of `ServerEntry`, with variables in the one form
that `expansion` knows; a dialect that has no variables gets its `${` escaped, so that it stays text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from toolyard.config.client_variables import VariableSyntax, variable_translator

TimeoutUnit = Literal["seconds", "milliseconds", "either"]

_MIN_MILLISECONDS: Final = 1_000
"""A time-out without a known unit means milliseconds from here on; nobody waits a quarter of an hour by default."""
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
"""Keys of other programs that mean nothing here. What they approve in advance is never approved by them here."""


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    timeouts: TimeoutUnit = "either"
    variables: VariableSyntax = "braces"
    timeout_key: str = "timeout"
    """What a `timeout` in it limits: a call, or the start (`startup_timeout`)."""


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
    """The servers of a document, as they stand in it."""

    dialect: Dialect
    servers: Mapping[str, Any] | list[Any]
    inputs: Mapping[str, str | None]
    """What an editor would ask for, by id, with the default it would offer."""


def locate_servers(document: Any, path: str) -> LocatedServers | None:
    """The servers in a document, None where there are none to be seen."""
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
    """Whose `mcpServers` these are, as the file's name and folder say."""
    folder, name = os.path.split(path)
    if name in _DIALECT_BY_FILE:
        return _DIALECT_BY_FILE[name]
    return next(
        (_DIALECT_BY_FOLDER[part] for part in reversed(folder.split(os.sep)) if part in _DIALECT_BY_FOLDER), MCP_JSON
    )


def project_folder(path: str) -> str:
    """The folder a file speaks for: the one it lies in, or the one above a program's own dot folder."""
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder) in _DIALECT_BY_FOLDER else folder


def translate_entry(raw: Mapping[str, Any], found: LocatedServers, project: str, home: str) -> dict[str, Any]:
    """One entry with the values that `ServerEntry` expects; keys are renamed later, by itself."""
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
    """Zed once wrote `command: {path, args, env}`."""
    command = entry.get("command")
    if not isinstance(command, Mapping):
        return entry
    inner = dict(cast("Mapping[str, Any]", command))
    del entry["command"]
    if "path" in inner:
        inner["command"] = inner.pop("path")
    return {**entry, **{key: value for key, value in inner.items() if value is not None}}


def _codex_variables(entry: dict[str, Any]) -> None:
    """Codex names variables in keys of their own instead of in the text."""
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
        # Codex passes on what is set; a variable that is not costs nothing.
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
