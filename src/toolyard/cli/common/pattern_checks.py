"""Finds patterns of the configuration that match no tool: a typo in one would protect nothing, silently.

Patterns are checked against the known tools. A pattern that may mean a tool of a server that was not asked yet is
skipped.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from toolyard.config.authorization import ToolPatterns
from toolyard.config.models import Config
from toolyard.config.server_registry import ResolvedServers
from toolyard.config.suggestions import SIMILARITY_CUTOFF
from toolyard.core.actions import Effect, Kind
from toolyard.policy.rules import KNOWN_TOOLS, Rule, parse_rule
from toolyard.tools.upstream_proxy import served_name

_SEPARATOR = re.compile(r"[./]")
_GLOB = re.compile(r"[*?\[\]]")
_MAX_LISTED = 5
_MCP = "mcp__"
_FUTURE_TOOLS_HINT = "Keep it if it is meant for future tools."

NamesByServer = Mapping[str, Collection[str]]
PatternMatcher = Callable[[str, str, str], bool]
"""Whether a pattern matches a tool of a server."""


@dataclass(frozen=True, slots=True)
class UnmatchedPattern:
    """A pattern that matches no known tool."""

    where: str
    pattern: str
    hint: str

    def __str__(self) -> str:
        return f'{self.where}: "{self.pattern}" matches no known tool.'


@dataclass(frozen=True, slots=True)
class KnownToolNames:
    """The names of known tools, by server and by group of custom tools."""

    servers: NamesByServer
    groups: NamesByServer
    """Groups of custom tools."""
    unlisted_servers: frozenset[str]
    """Configured servers whose tools are unknown."""

    @classmethod
    def of(cls, resolved: ResolvedServers, servers: NamesByServer, groups: NamesByServer) -> KnownToolNames:
        """Returns the names for a configuration."""
        named = {entry.name for entry in resolved.entries} | {problem.server for problem in resolved.problems}
        return cls(
            {name: tools for name, tools in servers.items() if tools}, groups, frozenset(named - servers.keys())
        )

    @property
    def all(self) -> NamesByServer:
        """All names, by server or group."""
        return {**self.groups, **self.servers}


def unmatched_patterns(
    config: Config, resolved: ResolvedServers, known: KnownToolNames
) -> tuple[UnmatchedPattern, ...]:
    """Returns every pattern that matches no tool, with a suggestion."""
    found = _PatternSearch(known)
    found.check_patterns("toolyard.tool_limits", config.toolyard.tool_limits, _covers)
    for number, agent in enumerate(config.agents):
        allowed, excluded = agent.backend.allowed_tools, agent.backend.exclude_tools
        for key, patterns, covers in (("allowed_tools", allowed, _allows), ("exclude_tools", excluded, _excludes)):
            shown = _patterns_as_written(config, patterns, "agents", number, "backend", key)
            found.check_patterns(f"{key} of agent {agent.id}", patterns, covers, own=KNOWN_TOOLS, shown=shown)
    for entry in resolved.entries:
        if entry.name in known.servers:
            only = {entry.name: known.servers[entry.name]}
            found.check_patterns(
                f"allowed_tools of server {entry.name}", entry.allowed_tools or (), _covers, among=only
            )
            found.check_patterns(f"exclude_tools of server {entry.name}", entry.exclude_tools, _covers, among=only)
    permissions = config.permissions
    for key, rules in (("allow", permissions.allow), ("ask", permissions.ask), ("deny", permissions.deny)):
        upstream = [rule for rule in rules if "(" not in rule]  # rules with an argument are about paths and commands
        shown = _patterns_as_written(config, rules, "permissions", key)
        found.check_patterns(f"permissions.{key}", upstream, _governs, own=KNOWN_TOOLS, shown=shown)
    return tuple(found.unmatched)


def _patterns_as_written(config: Config, patterns: Iterable[str], *at: str | int) -> dict[str, str]:
    """Returns the text in the file for patterns that contain variables."""
    written = {pattern: config.as_written("", *at, number) for number, pattern in enumerate(patterns)}
    return {pattern: text for pattern, text in written.items() if text}


class _PatternSearch:
    def __init__(self, known: KnownToolNames) -> None:
        self.unmatched: list[UnmatchedPattern] = []
        self._known = known

    def check_patterns(
        self,
        where: str,
        patterns: Iterable[str],
        covers: PatternMatcher,
        *,
        among: NamesByServer | None = None,
        own: Collection[str] = (),
        shown: Mapping[str, str] | None = None,
    ) -> None:
        """Collects the patterns that match nothing. `shown` replaces patterns whose variables must not be shown."""
        names = self._known.all if among is None else among
        for pattern in patterns:
            if any(fnmatchcase(name, pattern) for name in own):
                continue
            if any(covers(pattern, server, tool) for server, tools in names.items() for tool in tools):
                continue
            if among is None and self._may_match_unlisted(pattern):
                continue
            if shown and pattern in shown:
                self.unmatched.append(UnmatchedPattern(where, shown[pattern], _FUTURE_TOOLS_HINT))
            else:
                self.unmatched.append(UnmatchedPattern(where, pattern, _guess_hint(pattern, names, own)))

    def _may_match_unlisted(self, pattern: str) -> bool:
        server, _ = _split_pattern(pattern)
        if pattern in self._known.servers:  # a server's name alone does not match its tools
            return False
        return any(
            server is None or fnmatchcase(_code_spelling(name), _code_spelling(server))
            for name in self._known.unlisted_servers
        )


def _covers(pattern: str, server: str, tool: str) -> bool:
    return ToolPatterns((pattern,)).covers(server, tool)


def _allows(pattern: str, server: str, tool: str) -> bool:
    return ToolPatterns((pattern,), by_server=True).covers(server, tool) or _is_served(pattern, server, tool)


def _excludes(pattern: str, server: str, tool: str) -> bool:
    return pattern == server or _covers(pattern, server, tool) or _is_served(pattern, server, tool)


def _is_served(pattern: str, server: str, tool: str) -> bool:
    """Whether the pattern matches the name under which a client sees the tool."""
    return fnmatchcase(served_name(server, tool), pattern)


def _governs(pattern: str, server: str, tool: str) -> bool:
    rule = _rule(pattern)
    return any(rule.governs(Kind.CALL, name) for name in (f"{_MCP}{server}__{tool}", f"{server}.{tool}"))


@lru_cache(maxsize=64)
def _rule(pattern: str) -> Rule:
    return parse_rule(pattern, Effect.ASK)


def _split_pattern(pattern: str) -> tuple[str | None, str]:
    """Returns the server that a pattern names, or None, and the tool."""
    if pattern.startswith(_MCP):
        server, _, tool = pattern.removeprefix(_MCP).partition("__")
        return server, tool or "*"
    parts = _SEPARATOR.split(pattern, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) > 1 else (None, pattern)


def _code_spelling(name: str) -> str:
    """Returns a name as tool files spell it: dashes and dots become underscores."""
    return re.sub(r"[^A-Za-z0-9_*?\[\]]", "_", name)


def _guess_hint(pattern: str, names: NamesByServer, own: Collection[str]) -> str:
    server, tool = _split_pattern(pattern)
    if server is None:
        if pattern in names:
            return _did_you_mean(f"{pattern}.*")
        spelled = {name: f"{each}.{name}" for each, tools in names.items() for name in tools}
        close = _closest(pattern, (*spelled, *own))
        return _did_you_mean(spelled.get(close, close)) if close else ""
    if _GLOB.search(server):
        close = _closest(tool, [name for tools in names.values() for name in tools])
        return _did_you_mean(_qualified_name(pattern, server, close)) if close else _FUTURE_TOOLS_HINT
    known = {_code_spelling(name): name for name in names}
    found = known.get(_code_spelling(server))
    if found is None:
        close = _closest(server, names)
        return (
            _did_you_mean(_qualified_name(pattern, close, tool)) if close else _list_names("The servers are", names)
        )
    close = _closest(tool, names[found])
    return (
        _did_you_mean(_qualified_name(pattern, found, close)) if close else _list_names(f"{found} has", names[found])
    )


def _qualified_name(pattern: str, server: str, tool: str) -> str:
    return f"{_MCP}{server}__{tool}" if pattern.startswith(_MCP) else f"{server}.{tool}"


def _closest(word: str, known: Iterable[str]) -> str:
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(_GLOB.sub("", word).lower(), lowered, n=1, cutoff=SIMILARITY_CUTOFF)
    return lowered[close[0]] if close else ""


def _did_you_mean(name: str) -> str:
    return f'Did you mean "{name}"?'


def _list_names(what: str, names: Collection[str]) -> str:
    shown = sorted(names)[:_MAX_LISTED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{what} {', '.join(shown)}{more}." if shown else ""
