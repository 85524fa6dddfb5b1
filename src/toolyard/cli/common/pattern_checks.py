"""Patterns of the configuration that match no tool: a slip of the pen in one protects nothing, and says nothing.

Judged against what is known of the tools. A pattern that may mean a tool of a server that nobody could ask yet is
left alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from toolyard.config.authorization import Patterns
from toolyard.config.models import Config
from toolyard.config.server_registry import ResolvedServers
from toolyard.config.suggestions import CLOSE_ENOUGH
from toolyard.core.actions import Effect, Kind
from toolyard.policy.rules import KNOWN_TOOLS, Rule, parse_rule
from toolyard.tools.upstream_proxy import served_name

_SEPARATOR = re.compile(r"[./]")
_GLOB = re.compile(r"[*?\[\]]")
_LISTED = 5
_MCP = "mcp__"
_TO_COME = "Leave it if it is meant for tools to come."

Names = Mapping[str, Collection[str]]
Covers = Callable[[str, str, str], bool]
"""Whether a pattern covers a server's tool."""


@dataclass(frozen=True, slots=True)
class IdlePattern:
    where: str
    pattern: str
    hint: str

    def __str__(self) -> str:
        return f'{self.where}: "{self.pattern}" matches no tool that is known.'


@dataclass(frozen=True, slots=True)
class KnownTools:
    servers: Names
    groups: Names
    """Of custom tools."""
    unheard: frozenset[str]
    """Servers that are configured, and of whose tools nothing is known."""

    @classmethod
    def of(cls, resolved: ResolvedServers, servers: Names, groups: Names) -> KnownTools:
        named = {entry.name for entry in resolved.entries} | {problem.server for problem in resolved.problems}
        return cls(
            {name: tools for name, tools in servers.items() if tools}, groups, frozenset(named - servers.keys())
        )

    @property
    def all(self) -> Names:
        return {**self.groups, **self.servers}


def idle_patterns(config: Config, resolved: ResolvedServers, known: KnownTools) -> tuple[IdlePattern, ...]:
    """Every pattern that matches nothing, and what was probably meant."""
    found = _Found(known)
    found.look("toolyard.tool_limits", config.toolyard.tool_limits, _covers)
    for number, agent in enumerate(config.agents):
        allowed, excluded = agent.backend.allowed_tools, agent.backend.exclude_tools
        for key, patterns, covers in (("allowed_tools", allowed, _allows), ("exclude_tools", excluded, _excludes)):
            shown = _shown(config, patterns, "agents", number, "backend", key)
            found.look(f"{key} of agent {agent.id}", patterns, covers, own=KNOWN_TOOLS, shown=shown)
    for entry in resolved.entries:
        if entry.name in known.servers:
            only = {entry.name: known.servers[entry.name]}
            found.look(f"allowed_tools of server {entry.name}", entry.allowed_tools or (), _covers, among=only)
            found.look(f"exclude_tools of server {entry.name}", entry.exclude_tools, _covers, among=only)
    permissions = config.permissions
    for key, rules in (("allow", permissions.allow), ("ask", permissions.ask), ("deny", permissions.deny)):
        upstream = [rule for rule in rules if "(" not in rule]  # the others are about paths and commands
        shown = _shown(config, rules, "permissions", key)
        found.look(f"permissions.{key}", upstream, _governs, own=KNOWN_TOOLS, shown=shown)
    return tuple(found.idle)


def _shown(config: Config, patterns: Iterable[str], *at: str | int) -> dict[str, str]:
    """How those patterns of a place in the file are shown that have variables in them."""
    written = {pattern: config.as_written("", *at, number) for number, pattern in enumerate(patterns)}
    return {pattern: text for pattern, text in written.items() if text}


class _Found:
    def __init__(self, known: KnownTools) -> None:
        self.idle: list[IdlePattern] = []
        self._known = known

    def look(
        self,
        where: str,
        patterns: Iterable[str],
        covers: Covers,
        *,
        among: Names | None = None,
        own: Collection[str] = (),
        shown: Mapping[str, str] | None = None,
    ) -> None:
        """`shown`: what is told in place of patterns that have variables in the file."""
        names = self._known.all if among is None else among
        for pattern in patterns:
            if any(fnmatchcase(name, pattern) for name in own):
                continue
            if any(covers(pattern, server, tool) for server, tools in names.items() for tool in tools):
                continue
            if among is None and self._may_be_unheard(pattern):
                continue
            if shown and pattern in shown:
                self.idle.append(IdlePattern(where, shown[pattern], _TO_COME))
            else:
                self.idle.append(IdlePattern(where, pattern, _guess(pattern, names, own)))

    def _may_be_unheard(self, pattern: str) -> bool:
        server, _ = _parts(pattern)
        if pattern in self._known.servers:  # a server's name alone is no pattern of its tools
            return False
        return any(server is None or fnmatchcase(_plain(name), _plain(server)) for name in self._known.unheard)


def _covers(pattern: str, server: str, tool: str) -> bool:
    return Patterns((pattern,)).cover(server, tool)


def _allows(pattern: str, server: str, tool: str) -> bool:
    return Patterns((pattern,), by_server=True).cover(server, tool) or _is_served(pattern, server, tool)


def _excludes(pattern: str, server: str, tool: str) -> bool:
    return pattern == server or _covers(pattern, server, tool) or _is_served(pattern, server, tool)


def _is_served(pattern: str, server: str, tool: str) -> bool:
    """In a client's own list a tool has a name of its own."""
    return fnmatchcase(served_name(server, tool), pattern)


def _governs(pattern: str, server: str, tool: str) -> bool:
    rule = _rule(pattern)
    return any(rule.governs(Kind.CALL, name) for name in (f"{_MCP}{server}__{tool}", f"{server}.{tool}"))


@lru_cache(maxsize=64)
def _rule(pattern: str) -> Rule:
    return parse_rule(pattern, Effect.ASK)


def _parts(pattern: str) -> tuple[str | None, str]:
    """The server that a pattern names, if it names one, and the tool."""
    if pattern.startswith(_MCP):
        server, _, tool = pattern.removeprefix(_MCP).partition("__")
        return server, tool or "*"
    parts = _SEPARATOR.split(pattern, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) > 1 else (None, pattern)


def _plain(name: str) -> str:
    """As tool files have it: dashes and dots are underscores there."""
    return re.sub(r"[^A-Za-z0-9_*?\[\]]", "_", name)


def _guess(pattern: str, names: Names, own: Collection[str]) -> str:
    server, tool = _parts(pattern)
    if server is None:
        if pattern in names:
            return _meant(f"{pattern}.*")
        spelled = {name: f"{each}.{name}" for each, tools in names.items() for name in tools}
        close = _closest(pattern, (*spelled, *own))
        return _meant(spelled.get(close, close)) if close else ""
    if _GLOB.search(server):
        close = _closest(tool, [name for tools in names.values() for name in tools])
        return _meant(_spelled(pattern, server, close)) if close else _TO_COME
    known = {_plain(name): name for name in names}
    found = known.get(_plain(server))
    if found is None:
        close = _closest(server, names)
        return _meant(_spelled(pattern, close, tool)) if close else _listed("There are the servers", names)
    close = _closest(tool, names[found])
    return _meant(_spelled(pattern, found, close)) if close else _listed(f"{found} has", names[found])


def _spelled(pattern: str, server: str, tool: str) -> str:
    return f"{_MCP}{server}__{tool}" if pattern.startswith(_MCP) else f"{server}.{tool}"


def _closest(word: str, known: Iterable[str]) -> str:
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(_GLOB.sub("", word).lower(), lowered, n=1, cutoff=CLOSE_ENOUGH)
    return lowered[close[0]] if close else ""


def _meant(name: str) -> str:
    return f'Did you mean "{name}"?'


def _listed(what: str, names: Collection[str]) -> str:
    shown = sorted(names)[:_LISTED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{what} {', '.join(shown)}{more}." if shown else ""
