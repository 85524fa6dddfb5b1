"""Maps other programs' names for the keys of a server entry to ours.

Only keys are renamed: no file is read and nothing is expanded. Unknown keys are passed through, so that the caller
can refuse or report them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from toolyard.config.section import expected_error

KEY_ALIASES: Final = {
    **dict.fromkeys(("serverUrl", "httpUrl"), "url"),
    **dict.fromkeys(("environment",), "env"),
    **dict.fromkeys(("http_headers",), "headers"),
    **dict.fromkeys(("includeTools", "enabled_tools", "allowedTools", "enabledTools"), "allowed_tools"),
    **dict.fromkeys(("excludeTools", "disabled_tools", "disabledTools"), "exclude_tools"),
    **dict.fromkeys(("transport", "transportType"), "type"),
    **dict.fromkeys(("envFile",), "env_file"),
    **dict.fromkeys(("workingDirectory", "working_directory"), "cwd"),
    **dict.fromkeys(("tool_timeout_sec",), "timeout"),
    **dict.fromkeys(("startup_timeout_sec",), "startup_timeout"),
}
OAUTH_KEY_ALIASES: Final = {
    **dict.fromkeys(("clientId", "CLIENT_ID"), "client_id"),
    **dict.fromkeys(("clientSecret", "CLIENT_SECRET"), "client_secret"),
    **dict.fromkeys(("scope", "SCOPES"), "scopes"),
    **dict.fromkeys(("redirectUri",), "redirect_uri"),
    **dict.fromkeys(("callbackPort", "callback_port"), "redirect_port"),
}
_TYPE_ALIASES: Final = {
    "local": "stdio",
    "http": "streamable-http",
    "https": "streamable-http",
    "remote": "streamable-http",
    "streamable": "streamable-http",
    "streamablehttp": "streamable-http",
}


def normalize_keys(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entry with the keys and the `type` that `ServerEntry` expects."""
    entry: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    # Gemini's `httpUrl` takes precedence over its `url`, which means the older transport.
    given = {key: value for key, value in raw.items() if not (key == "url" and "httpUrl" in raw)}
    for key, value in given.items():
        usual = KEY_ALIASES.get(key, key)
        if key == "enabled":
            if not isinstance(value, bool):
                raise expected_error("true or false as `enabled`")
            usual, value = "disabled", not value
        if usual in entry:
            raise expected_error(f"only one of `{said_by[usual]}` and `{key}`")
        entry[usual], said_by[usual] = value, key
    if "httpUrl" in raw:
        entry.setdefault("type", "streamable-http")
    if isinstance(entry.get("type"), str):
        entry["type"] = _normalize_type(entry["type"])
    if "oauth" in entry:
        entry["oauth"] = _normalize_oauth(entry["oauth"])
    return entry


def _normalize_type(text: str) -> str:
    usual = text.replace("_", "-").lower()
    return _TYPE_ALIASES.get(usual, usual)


def _normalize_oauth(raw: Any) -> Any:
    if isinstance(raw, bool):
        return {"enabled": raw}
    if not isinstance(raw, Mapping):
        return raw
    section = {OAUTH_KEY_ALIASES.get(key, key): value for key, value in cast("Mapping[str, Any]", raw).items()}
    if isinstance(section.get("scopes"), str):
        section["scopes"] = section["scopes"].split()
    return section
