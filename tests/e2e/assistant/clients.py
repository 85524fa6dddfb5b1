"""What it takes to let each real client ask one question of the assistant, its own model being a scripted one.

Their own keys are in their settings or have names of their own, so that the assistant has what the test sets alone.
Gemini CLI's is in GEMINI_API_KEY whatever one does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SERVER = "toolyard-assistant"
OWN = "the-key-of-the-client"
_CODEX = """model = "scripted"
model_provider = "own"
check_for_update_on_startup = false

[model_providers.own]
name = "own"
base_url = "{url}/v1"
env_key = "CODEX_OWN_KEY"
wire_api = "responses"

[analytics]
enabled = false
"""
_APPROVED = f'mcp_servers.{SERVER}.default_tools_approval_mode="approve"'
_QUIET = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}


@dataclass(frozen=True)
class Client:
    prefix: str
    """What its model sees before the names of our tools."""
    words: tuple[str, ...]
    """That let it answer one prompt."""
    files: Callable[[str], Mapping[str, str]]
    """Its own settings, below its home, which lead to the model at an address."""
    variables: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    """The variable with the address of its model, where no setting has it."""


def _gemini(_: str) -> Mapping[str, str]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, **_QUIET}
    return {".gemini/settings.json": json.dumps(settings)}


def _qwen(url: str) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai", "apiKey": OWN, "baseUrl": f"{url}/v1"}},
        "model": {"name": "scripted"},
        # Denying its search for tools makes it declare them all.
        "permissions": {"deny": ["tool_search"], "allow": [f"mcp__{SERVER}__*"]},
        **_QUIET,
    }
    return {".qwen/settings.json": json.dumps(settings)}


def _opencode(url: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "own",
        "options": {"baseURL": f"{url}/v1", "apiKey": OWN},
        "models": {"scripted": {"name": "scripted"}},
    }
    return {
        ".config/opencode/opencode.json": json.dumps({"provider": {"own": provider}, "autoupdate": False}),
        # Else it fetches a package for plugins.
        ".config/opencode/package-lock.json": json.dumps(
            {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
        ),
        ".config/opencode/node_modules/.keep": "",
    }


CLIENTS = {
    "codex": Client(
        "mcp__toolyard_assistant__",  # it has no hyphens in names
        ("exec", "--skip-git-repo-check", "-c", _APPROVED, "-c", f"mcp_servers.{SERVER}.required=true", "go"),
        lambda url: {".codex/config.toml": _CODEX.format(url=url)},
        {"CODEX_OWN_KEY": OWN},
    ),
    "gemini": Client(
        f"mcp_{SERVER}_",
        ("-p", "go", "-m", "gemini-2.5-flash", "--skip-trust", "--allowed-mcp-server-names", SERVER),
        _gemini,
        {"GEMINI_API_KEY": OWN, "GEMINI_CLI_NO_RELAUNCH": "true"},
        "GOOGLE_GEMINI_BASE_URL",
    ),
    "qwen": Client(f"mcp__{SERVER}__", ("-p", "go"), _qwen, {"QWEN_CODE_NO_RELAUNCH": "true"}),
    "opencode": Client(
        f"{SERVER}_",
        ("run", "--pure", "--title", "run", "--model", "own/scripted", "go"),
        _opencode,
        {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
    ),
}
