"""The files that count as part of a configuration: what they say, it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolyard.config.server_entry import ServerEntry

if TYPE_CHECKING:
    from toolyard.config.models import Config


def included_files(config: Config, home: str) -> tuple[str, ...]:
    """Absolute paths of server files, Python files of custom tools and `env_file`s, each once."""
    folder = os.path.abspath(config.folder(""))
    names = (home + name[1:] if name.startswith("~/") else name for name in _named_files(config))
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(folder, name)) for name in names))


def _named_files(config: Config) -> Iterator[str]:
    yield from config.toolyard.server_files
    for tool in config.toolyard.available_custom_tools:
        name = tool.rpartition(":")[0] if isinstance(tool, str) else tool.path or ""
        if name.endswith(".py"):
            yield name
    everywhere = (*config.servers, *(server for agent in config.agents for server in agent.backend.mcp_servers))
    yield from (each.env_file for each in everywhere if isinstance(each, ServerEntry) and each.env_file)
