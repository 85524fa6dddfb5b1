"""Generates the text of an initial configuration: agents, their folders and their servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from toolyard.config.backends import BACKENDS, BackendKind

DEFAULT_BACKEND: Final = "gemini"
_KEY_PREFERENCE: Final = ("gemini", "openai", "claude", "openrouter")
_WIDTH: Final = 110
_SINGLE_AGENT_ID: Final = "helper"
_HEADER: Final = """\
# The agents of this folder. So that an editor completes and checks this file, run
# `toolyard init --schema > toolyard.schema.json` and make this its first line:
#   yaml-language-server: $schema=toolyard.schema.json
#
# `permission_mode: strict` lets an agent read and write in its folder, and run commands in the sandbox, without
# asking you; everything outside is refused. `acceptEdits` asks before commands that may change something, `default`
# before it writes, too, and `plan` changes nothing.
"""


def default_backend_kind(access: Mapping[str, str]) -> BackendKind:
    """Returns the model API whose key is set, or the default backend."""
    found = (
        BACKENDS[name] for name in _KEY_PREFERENCE if any(access.get(key) for key in BACKENDS[name].key_variables)
    )
    return next(found, BACKENDS[DEFAULT_BACKEND])


def starting_config(kinds: Sequence[BackendKind], servers: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a configuration with an agent for each of `kinds`, and these servers for all of them.

    A single agent is written as in docs/first-agent.md, several as in docs/team.md.
    """
    parts = [_HEADER, *_agent_lines(kinds), ""]
    parts += ["toolyard:", *_workspace_lines(len(kinds) > 1), *_execution_mode_lines(bool(servers)), ""]
    parts += _server_lines(servers)
    if len(kinds) > 1:
        parts += ["orchestrator:", "  limits: {rounds: 4, seconds: 3600}  # what ends a run at the latest", ""]
    parts += ["ui:", "  display_type: rich_terminal", ""]
    return "\n".join(parts)


def servers_block(servers: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the entries by name in the format of a servers file."""
    text: str = yaml.safe_dump(  # pyright: ignore[reportUnknownMemberType]
        {name: dict(entry) for name, entry in servers.items()},
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=None,
    )
    return text


def agent_ids(kinds: Sequence[BackendKind]) -> list[str]:
    """Returns an id for each agent: its backend's name, numbered if several agents share a backend."""
    if len(kinds) == 1:
        return [_SINGLE_AGENT_ID]
    names = [kind.name for kind in kinds]
    return [
        name if names.count(name) == 1 else f"{name}_{names[: place + 1].count(name)}"
        for place, name in enumerate(names)
    ]


def _agent_lines(kinds: Sequence[BackendKind]) -> list[str]:
    if len(kinds) == 1:
        cwd = "cwd: project  # the folder it works in, beside this file"
        return [
            "agent:",
            f"  id: {_SINGLE_AGENT_ID}",
            "  backend:",
            *(f"    {line}" for line in _backend_lines(kinds[0], cwd)),
        ]
    lines = ["agents:"]
    for kind, name in zip(kinds, agent_ids(kinds), strict=True):
        lines += [f"  - id: {name}", "    backend:", *(f"      {line}" for line in _backend_lines(kind))]
    return lines


def _backend_lines(kind: BackendKind, *folder: str) -> list[str]:
    return [f"type: {kind.name}", *_model_lines(kind), *folder, "permission_mode: strict"]


def _model_lines(kind: BackendKind) -> list[str]:
    if kind.driver:
        return ["# model: ...  # left out, the CLI's own choice"]
    key = f"  # the key comes from {kind.key_variables[0]}" if kind.needs_key else ""
    lines = [f"model: {kind.default_model or 'CHANGE_ME'}{key}"]
    if kind.needs_base_url:
        lines.append("base_url: http://localhost:8080/v1")
    elif kind.base_url:
        lines.append(f"# base_url: {kind.base_url}")
    return lines


def _workspace_lines(is_team: bool) -> list[str]:
    return ["  workspace: workspace  # each agent has a folder of its own in it"] if is_team else []


def _execution_mode_lines(has_servers: bool) -> list[str]:
    if has_servers:
        return ["  execution_mode: filesystem_first  # tools are files; an agent calls them from code"]
    return ["  execution_mode: context_based  # every tool in the agent's own list"]


def _server_lines(servers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not servers:
        return ["# available_mcp_servers:  # names from your servers file, or entries", "#   - github", ""]
    block = servers_block(servers).rstrip("\n").split("\n")
    return ["available_mcp_servers:", *(f"  {line}" if line else "" for line in block), ""]
