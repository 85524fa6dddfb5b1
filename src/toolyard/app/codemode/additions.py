"""Servers that are added to the configuration while a session runs: read again, and held against what was synced.

An entry is a command that is run on the host, and its file may lie where an agent can write. So only an entry counts
for which the user has run `toolyard sync`: the catalog has a hash of it. Entries of the session's start stay as they
are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.codemode.evidence import is_of_entry
from toolyard.config.authorization import Authorization
from toolyard.config.load import load_config
from toolyard.config.server_registry import resolve_servers
from toolyard.core.errors import ToolyardError

if TYPE_CHECKING:
    from toolyard.app.codemode.codemode import CodeMode
    from toolyard.config.models import ServerEntry


@dataclass(frozen=True, slots=True)
class AddedServer:
    entry: ServerEntry
    authorization: Authorization
    """What the agent may call, by the configuration as it is now."""


def added_server(mode: CodeMode, name: str) -> AddedServer | None:
    """The server of this name, if it is in the configuration by now and was synced as it stands there."""
    around = mode.around
    synced = next((server for server in mode.catalog.servers() if server.name == name), None)
    if around.config.source is None or synced is None:
        return None
    try:
        config = load_config(around.config.source)
        resolved = resolve_servers(config, around.settings)
        authorization = Authorization.for_agent(config, around.agent_id, resolved)
    except ToolyardError:  # being edited, say; the next call looks again
        return None
    entry = next((entry for entry in resolved.entries if entry.name == name), None)
    if entry is None or not is_of_entry(synced.evidence, entry):
        return None
    return AddedServer(entry, authorization)
