"""Decides which servers and tools an agent may call, from the configuration alone.

An agent with its own list (`backend.mcp_servers`) may use those servers; an agent without one may use every server
that is not reserved for other agents. Of a server's tools it may call those that its `allowed_tools` match (all, if
empty) and its `exclude_tools` do not; the lists of the server's entry apply in the same way.

A pattern is a glob on any spelling of a tool: `server.tool`, `server/tool`, `mcp__server__tool` or `tool`; also
`mcp__server` for the whole server. Dashes and dots may be written as underscores, as in tool files.

If the configuration has several agents and none is selected, nothing may be called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from toolyard.config.agents import select_agent
from toolyard.config.models import Agent, Config
from toolyard.config.server_entry import EVERY_SERVER, ServerEntry

if TYPE_CHECKING:
    from toolyard.config.server_registry import ResolvedServers

_INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_*?]")
_SEPARATOR = re.compile(r"[./]")
_MAX_CACHED_MATCHES = 1 << 12
_MAX_CACHED_NAME_CHARS = 1_000
"""Maximum length of a cached tool name. Longer names are not real tools and would only fill the cache."""


@dataclass(frozen=True, slots=True)
class ToolPatterns:
    """Globs on tools.

    With `by_server`, a pattern that names a server cannot match a tool of another server with a similar bare name.
    """

    texts: tuple[str, ...]
    by_server: bool = False

    def covers(self, server: str, tool: str) -> bool:
        return any(True for _ in self.matching_patterns(server, tool))

    def matching_patterns(self, server: str, tool: str) -> Iterator[str]:
        covers = _pattern_covers if len(server) + len(tool) <= _MAX_CACHED_NAME_CHARS else _pattern_covers.__wrapped__
        return (text for text in self.texts if covers(text, server, tool, self.by_server))


@lru_cache(maxsize=_MAX_CACHED_MATCHES)
def _pattern_covers(pattern: str, server: str, tool: str, by_server: bool) -> bool:
    if pattern == f"mcp__{server}":
        return True
    names_a_server = bool(_SEPARATOR.search(pattern)) or pattern.startswith("mcp__")
    plain = not (by_server and names_a_server)
    if any(fnmatchcase(name, pattern) for name in _tool_spellings(server, tool, plain)):
        return True
    if "[" in pattern:
        return False
    # The same in the spelling of tool files: my_server.list_all means my-server's list-all.
    parts = _SEPARATOR.split(pattern, maxsplit=1)
    written = ".".join(_INVALID_NAME_CHAR.sub("_", part) for part in parts)
    server, tool = _INVALID_NAME_CHAR.sub("_", server), _INVALID_NAME_CHAR.sub("_", tool)
    return any(fnmatchcase(name, written) for name in _tool_spellings(server, tool, plain))


def _tool_spellings(server: str, tool: str, plain: bool) -> tuple[str, ...]:
    qualified = (f"{server}.{tool}", f"{server}/{tool}", f"mcp__{server}__{tool}")
    return (*qualified, tool) if plain else qualified


@dataclass(frozen=True, slots=True)
class Authorization:
    """What one agent may call."""

    own_servers: frozenset[str] | None = None
    """The agent's own servers; None if it may use all that are not reserved."""
    reserved_servers: frozenset[str] = frozenset()
    """Servers that only other agents may use."""
    allowed: ToolPatterns = ToolPatterns(())
    """Empty allows everything."""
    excluded: ToolPatterns = ToolPatterns(())
    also_allowed: ToolPatterns = ToolPatterns(())
    """A second allow list: a tool must match both."""
    entries: Mapping[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])

    @classmethod
    def for_agent(
        cls, config: Config, agent_id: str | None, resolved: ResolvedServers | None = None
    ) -> Authorization:
        """Returns the rights of an agent; `resolved` adds the entries of the user's servers file and other files."""
        agent = select_agent(config, agent_id)
        if agent is None and config.agents:
            return cls(own_servers=frozenset())
        known = resolved.entries if resolved else _server_entries(config)
        shared = set(_server_names(config.servers)) | (resolved.shared if resolved else frozenset[str]())
        given = {name for each in config.agents for name in _server_names(each.backend.mcp_servers)}
        own = frozenset(_server_names(agent.backend.mcp_servers)) if agent else frozenset[str]()
        return cls(
            own_servers=own if own and EVERY_SERVER not in own else None,
            reserved_servers=frozenset() if EVERY_SERVER in own else frozenset(given - shared - {EVERY_SERVER}),
            entries={entry.name: entry for entry in known},
            allowed=_allowed_patterns(agent),
            excluded=_excluded_patterns(agent),
        )

    def restricted_by(self, other: Authorization) -> Authorization:
        """Returns these rights, restricted further by the tool lists of `other`."""
        excluded = ToolPatterns((*self.excluded.texts, *other.excluded.texts))
        return replace(self, excluded=excluded, also_allowed=other.allowed)

    @classmethod
    def for_custom_tools(cls, config: Config, agent_id: str | None) -> Authorization:
        """Returns the rights to custom tools. Their groups act as servers, and only the agent's tool lists apply."""
        agent = select_agent(config, agent_id)
        if agent is None and config.agents:
            return cls(own_servers=frozenset())
        return cls(allowed=_allowed_patterns(agent), excluded=_excluded_patterns(agent))

    def may_use(self, server: str) -> bool:
        return server not in self.reserved_servers if self.own_servers is None else server in self.own_servers

    def may_call(self, server: str, tool: str) -> bool:
        if not self.may_use(server) or self._is_excluded(server, tool):
            return False
        if any(each.texts and not each.covers(server, tool) for each in (self.allowed, self.also_allowed)):
            return False
        entry = self.entries.get(server)
        if entry is None:
            return True
        if entry.allowed_tools is not None and not ToolPatterns(entry.allowed_tools).covers(server, tool):
            return False
        return not ToolPatterns(entry.exclude_tools).covers(server, tool)

    def _is_excluded(self, server: str, tool: str) -> bool:
        # A server's bare name excludes all of its tools: for exclusions the wider reading is the safe one.
        return self.excluded.covers(server, tool) or server in self.excluded.texts


def _allowed_patterns(agent: Agent | None) -> ToolPatterns:
    return ToolPatterns(agent.backend.allowed_tools if agent else (), by_server=True)


def _excluded_patterns(agent: Agent | None) -> ToolPatterns:
    return ToolPatterns(agent.backend.exclude_tools if agent else ())


def _server_names(servers: Iterable[ServerEntry | str]) -> Iterator[str]:
    return (server if isinstance(server, str) else server.name for server in servers)


def _server_entries(config: Config) -> list[ServerEntry]:
    everywhere = (*config.servers, *(each for agent in config.agents for each in agent.backend.mcp_servers))
    return [server for server in everywhere if isinstance(server, ServerEntry)]
