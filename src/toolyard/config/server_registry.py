"""Resolves all servers that the configuration makes available.

A full entry in the configuration takes precedence over one of the same name in a server file; bare names are looked
up in the user's servers file. A server that cannot be resolved is reported as a problem and does not affect the
others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from toolyard.config.models import Config
from toolyard.config.server_entry import EVERY_SERVER, ServerEntry
from toolyard.config.server_files import ServerFile, ServerProblem, read_server_file
from toolyard.config.settings import Settings
from toolyard.config.suggestions import closest_match, did_you_mean
from toolyard.core.errors import ConfigError

REGISTRY_NAMES: Final = ("servers.yaml", "servers.yml", "servers.json")
_OWN_PROGRAM: Final = "toolyard"


@dataclass(frozen=True, slots=True)
class ResolvedServers:
    """The servers that the configuration makes available, and the problems found."""

    entries: tuple[ServerEntry, ...]
    """The servers that can be started, with unique names: from the configuration, from files, then bare names."""
    problems: tuple[ServerProblem, ...] = ()
    shared: frozenset[str] = frozenset()
    """The names that are available to every agent; the others belong to single agents."""

    @property
    def errors(self) -> tuple[ServerProblem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def read_registry(settings: Settings) -> ServerFile | None:
    """Returns the user's servers file, or None if it does not exist. Its servers are started in the home folder."""
    for name in REGISTRY_NAMES if settings.config_home else ():
        path = os.path.join(settings.config_home, name)
        if os.path.isfile(path):
            return read_server_file(path, home=settings.home, base=settings.home)
    return None


def resolve_servers(config: Config, settings: Settings) -> ResolvedServers:
    """Returns the servers of the configuration, its server files and the user's servers file. Starts nothing."""
    collected = _ServerCollector(config, settings)
    collected.add(server for server in config.servers if isinstance(server, ServerEntry))
    for path in config.toolyard.server_files:
        collected.add_file(path)
    collected.add(server for server in config.servers if isinstance(server, str))
    shared = frozenset(collected.entries)
    for agent in config.agents:
        collected.add(agent.backend.mcp_servers)
    entries = tuple(entry for entry in collected.entries.values() if not entry.disabled)
    for entry in collected.entries.values():
        if entry.disabled:
            note = ServerProblem(entry.name, "is disabled.", where=entry.origin, severity="note")
            collected.problems.append(note)
    return ResolvedServers(entries, tuple(collected.problems), shared)


class _ServerCollector:
    def __init__(self, config: Config, settings: Settings) -> None:
        self.entries: dict[str, ServerEntry] = {}
        self.problems: list[ServerProblem] = []
        self._settings = settings
        self._source = config.source or ""
        self._folder = config.base_folder("")
        everywhere = (*config.servers, *(server for agent in config.agents for server in agent.backend.mcp_servers))
        self._described_names = {server.name for server in everywhere if isinstance(server, ServerEntry)}
        self._registry: Mapping[str, ServerEntry] | None = None

    def add(self, servers: Iterable[ServerEntry | str]) -> None:
        for server in servers:
            if isinstance(server, ServerEntry):
                origin = server.origin or self._source
                self._add_entry(server.model_copy(update={"base": server.base or self._folder, "origin": origin}))
            elif server == EVERY_SERVER:
                for entry in self.registry.values():
                    self.entries.setdefault(entry.name, entry)
            else:
                self._look_up(server)

    def add_file(self, name: str) -> None:
        path = self._settings.home + name[1:] if name.startswith("~/") else os.path.join(self._folder, name)
        try:
            file = read_server_file(path, home=self._settings.home, project=self._folder or None)
        except ConfigError as error:
            hint = error.hint or "Check `server_files`."
            self.problems.append(ServerProblem(name, _without_path(error), hint, error.where))
            return
        self.problems.extend(file.problems)
        for entry in file.entries:
            if _is_toolyard(entry):
                message = "is Toolyard itself, which would serve its own tools again; it is skipped."
                self.problems.append(ServerProblem(entry.name, message, where=file.path, severity="note"))
            elif entry.name in self.entries:
                other = self.entries[entry.name].origin or "the configuration"
                message = f"is also declared in {other}; that entry is used."
                self.problems.append(ServerProblem(entry.name, message, where=file.path, severity="note"))
            else:
                self.entries[entry.name] = entry

    @property
    def registry(self) -> Mapping[str, ServerEntry]:
        """The user's servers by name, read once when the first bare name is looked up."""
        if self._registry is None:
            self._registry = {}
            try:
                file = read_registry(self._settings)
            except ConfigError as error:
                self.problems.append(ServerProblem("servers file", error.message, error.hint))
                file = None
            if file is not None:
                self._registry = {entry.name: entry for entry in file.entries}
                self.problems.extend(file.problems)
        return self._registry

    def _look_up(self, name: str) -> None:
        if name in self.entries:
            return
        if name in self.registry:
            self.entries[name] = self.registry[name]
            return
        place = os.path.join(self._settings.config_home, REGISTRY_NAMES[0])
        known = {*self.registry, *self.entries, *self._described_names}
        meant = closest_match(name, known)
        if self.registry or meant:
            message = f"is not in {place}." if self.registry else "is not the name of a server described here."
            problem = ServerProblem(name, message, did_you_mean(name, known), self._source)
        else:
            hint = f"Describe it there (`{name}: {{command: ...}}`), or replace the name here with a full entry."
            problem = ServerProblem(name, f"is only a name, and {place} does not exist.", hint, self._source)
        self.problems.append(problem)

    def _add_entry(self, entry: ServerEntry) -> None:
        before = self.entries.get(entry.name)
        if before is None:
            self.entries[entry.name] = entry
        elif before != entry:
            message = "is declared twice with different settings; the first entry is used."
            hint = "Server names must be unique: rename one of them."
            self.problems.append(ServerProblem(entry.name, message, hint, entry.origin))


def _without_path(error: ConfigError) -> str:
    """Returns the error message without the file's path, but with the line."""
    line = error.where.rpartition(":")[2]
    message = error.message.removeprefix(f"{error.where}: ")
    return f"line {line} {message}" if line.isdigit() else message


def _is_toolyard(entry: ServerEntry) -> bool:
    words = [os.path.basename(word) for word in entry.command_line[:4]]
    return "mcp" in words and _OWN_PROGRAM in words[: words.index("mcp")]
