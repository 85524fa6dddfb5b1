"""Sync of one yard: ask, pin, accept, write. What came of it, as a report."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolyard.codemode.catalog import Catalog, Change, KnownTool, ToolChange
from toolyard.codemode.file_writer import CUSTOM, Written
from toolyard.codemode.files import collision_notices
from toolyard.codemode.last_sync import Names, differences, read_told, write_told
from toolyard.codemode.sync import OnAsked, alone, ask_servers, by_name, due, forget_others
from toolyard.codemode.update_files import write
from toolyard.config.settings import environment
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.service import CodeMode


@dataclass(frozen=True, slots=True)
class SyncWish:
    servers: tuple[str, ...] = ()
    """Only these; all of them when empty."""
    refresh: bool = False
    """Ask also those whose tools cannot have changed."""
    accept: bool = False
    """Trust tools that have changed since they were pinned."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    servers: int
    tools: int
    written: int
    seconds: float
    asked: tuple[str, ...]
    changes: tuple[ToolChange, ...]
    failed: tuple[tuple[str, str], ...]
    """Servers that could not be asked, and why."""
    quarantined: tuple[KnownTool, ...]
    plain_tokens: int
    """What all these tools would cost in a model's context."""
    note: str = ""
    """What the user should know of the search index."""
    custom: int = 0
    """How many custom tools there are beside."""
    last_words: Mapping[str, str] = field(default_factory=dict[str, str])
    """What those that failed printed on stderr, as far as it is kept."""
    heard: int = 0
    """How many servers have ever answered: those that the tools are of."""
    names: Names = field(default_factory=dict[str, Collection[str]])
    """Of all tools that are known now; those of custom tools under `tools/<group>`."""
    notices: tuple[str, ...] = ()
    """Names of servers that are Toolyard's own."""


def tell_nobody(server: str, error: str) -> None:
    """Where nobody watches."""


def sync(mode: CodeMode, wish: SyncWish, on_asked: OnAsked = tell_nobody) -> SyncReport:
    """Bring catalog, tool files and index of a workspace up to date."""
    started = time.monotonic()
    entries = mode.resolved.entries
    known = {entry.name for entry in entries}
    check_wish(mode, wish)
    last_words: Mapping[str, str] = {}
    with alone(mode.around.state):
        changes = forget_others(mode.catalog, known)
        seen = mode.catalog.waiting()
        mode.note_changes()
        search_path = environment().get("PATH", "")
        wanted = due(mode.catalog, by_name(entries, wish.servers), search_path, everything=wish.refresh)
        failed: tuple[tuple[str, str], ...] = ()
        if wanted:
            connected = mode.connected
            asking = ask_servers(mode.catalog, wanted, connected.fresh_listing, on_asked, mode.trusted)
            asked = connected.loop.run(asking)
            changes, failed = (*changes, *asked.changes), asked.failed
            said = connected.pool.status()
            last_words = {server: said[server].stderr for server, _ in failed}
        if wish.accept:
            changes += mode.catalog.accept(wish.servers or known, seen)
        wrote = write(mode)
        before, now = read_told(mode.around.state), known_names(mode.catalog, mode.custom)
        changes = untold(before, now, changes)
        if before != now:
            write_told(mode.around.state, now)
    counts = mode.catalog.counts()
    return SyncReport(
        servers=len(entries),
        tools=sum(counts.values()),
        written=wrote.files,
        seconds=time.monotonic() - started,
        asked=tuple(wanted),
        changes=changes,
        failed=(*problems(mode), *failed),
        quarantined=mode.catalog.quarantined(),
        plain_tokens=plain_tokens(mode.catalog),
        note=wrote.note,
        custom=len(mode.custom),
        last_words=last_words,
        heard=heard(mode.catalog),
        names=now,
        notices=collision_notices(known),
    )


def check_wish(mode: CodeMode, wish: SyncWish) -> None:
    """Raises ValidationError for a server that is not there, ConfigError where the configuration was left out."""
    known = {entry.name for entry in mode.resolved.entries}
    for name in wish.servers:
        if name not in known:
            hint = did_you_mean(name, known) if known else "None is configured."
            raise ValidationError.of("server", f"there is no server {name!r}", hint=hint)
    if not known and mode.around.config.source is None and mode.catalog.servers():
        raise ConfigError(
            "no MCP servers are configured here, but tools of some are known; nothing was changed.",
            hint="Name the configuration that has them: --config F.",
        )


def heard(catalog: Catalog) -> int:
    return sum(1 for server in catalog.servers() if server.asked)


def problems(mode: CodeMode) -> tuple[tuple[str, str], ...]:
    """Servers and custom tools that cannot be had as they are configured, and why."""
    servers = ((problem.server, problem.text) for problem in mode.resolved.errors)
    return (*servers, *((problem.name, problem.text) for problem in mode.custom.problems))


def untold(before: Names | None, now: Names, changes: tuple[ToolChange, ...]) -> tuple[ToolChange, ...]:
    """All that changed since a sync last told of it, whoever noticed; `changes` are what this one has noticed."""
    if before is None:
        before = {server: () if server.startswith(CUSTOM) else tools for server, tools in now.items()}
    else:
        changes = tuple(change for change in changes if change.change is Change.CHANGED)
    return (*changes, *differences(before, now))


def known_names(catalog: Catalog, custom: CustomTools) -> Names:
    """The names of all tools; those of custom tools under `tools/<group>`."""
    names = {server: list(catalog.tool_names(server)) for server in catalog.counts()}
    for group, schemas in custom.groups.items():
        names[f"{CUSTOM}{group}"] = [schema.name.removeprefix(f"{group}.") for schema in schemas]
    return names


def plain_tokens(catalog: Catalog, servers: Collection[str] | None = None) -> int:
    """What the tools would cost in a model's context, were they all put into it."""
    return sum(
        Written.parse(server.written).tokens
        for server in catalog.servers()
        if servers is None or server.name in servers
    )
