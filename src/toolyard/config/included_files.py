"""Lists the files that a configuration includes and that are therefore trusted and protected with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolyard.config.expansion import expand_text
from toolyard.config.server_entry import ServerEntry
from toolyard.config.settings import environment
from toolyard.core.errors import ConfigError

if TYPE_CHECKING:
    from toolyard.config.models import Config


def included_files(config: Config, home: str) -> tuple[str, ...]:
    """Returns the absolute paths of server files, Python files of custom tools and `env_file`s, without duplicates.

    Variables in the name of an `env_file` have their current values: a different value means a different file, and
    therefore a different configuration.
    """
    folder = os.path.abspath(config.base_folder(""))

    def absolute(name: str, base: str = folder) -> str:
        return os.path.normpath(os.path.join(base, home + name[1:] if name.startswith("~/") else name))

    found = [absolute(name) for name in _named_files(config)]
    for name in config.toolyard.server_files:
        found += (absolute(file, base) for file, base in _env_files(absolute(name), home, folder))
    return tuple(dict.fromkeys(found))


def _env_files(server_file: str, home: str, project: str) -> Iterator[tuple[str, str]]:
    """Yields the `env_file`s of the servers in a file, each with the folder that it is relative to."""
    from toolyard.config.server_files import read_server_file  # most configurations name none

    with contextlib.suppress(ConfigError):  # errors in the file are reported where its servers are used
        for entry in read_server_file(server_file, home=home, project=project).entries:
            if entry.env_file:
                yield _expand_variables(entry.env_file), entry.base or project


def _named_files(config: Config) -> Iterator[str]:
    yield from config.toolyard.server_files
    for tool in config.toolyard.available_custom_tools:
        name = tool.rpartition(":")[0] if isinstance(tool, str) else tool.path or ""
        if name.endswith(".py"):
            yield name
    everywhere = (*config.servers, *(server for agent in config.agents for server in agent.backend.mcp_servers))
    named = (each.env_file for each in everywhere if isinstance(each, ServerEntry) and each.env_file)
    yield from map(_expand_variables, named)


def _expand_variables(name: str) -> str:
    try:
        return expand_text(name, environment(), where="env_file")
    except ConfigError:  # reported when the server is started; once the variable is set, the name changes
        return name
