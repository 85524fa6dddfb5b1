"""Syncs a Yard: asks the servers, pins and accepts tools, writes files. Returns a report."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolyard.codemode.catalog import Catalog, ChangeKind, KnownTool, ToolChange
from toolyard.codemode.file_writer import CUSTOM_PREFIX, WrittenServer
from toolyard.codemode.files import collision_notices
from toolyard.codemode.last_sync import ToolNames, read_last_sync, tool_differences, write_last_sync
from toolyard.codemode.sync import (
    OnServerAnswered,
    ask_servers,
    exclusive_sync_lock,
    forget_removed_servers,
    select_entries,
    servers_to_ask,
    update_tool_files,
)
from toolyard.config.settings import environment
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from toolyard.codemode.custom import CustomTools
    from toolyard.codemode.service import CodeMode


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """The options of a sync."""

    servers: tuple[str, ...] = ()
    """Only these servers; all if empty."""
    refresh: bool = False
    """Also ask servers whose tools cannot have changed."""
    accept: bool = False
    """Accept tools that changed since they were pinned."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of a sync."""

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
    """The context tokens of all tools, if they were put into a model's context."""
    note: str = ""
    """A note for the user about the search index."""
    custom: int = 0
    """The number of custom tools."""
    stderr_of_failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The stderr of servers that failed, as far as it is available."""
    answered_servers: int = 0
    """The number of servers that have ever answered."""
    names: ToolNames = field(default_factory=dict[str, Collection[str]])
    """The names of all known tools; custom tools are under `tools/<group>`."""
    notices: tuple[str, ...] = ()
    """Notices about servers whose names belong to Toolyard."""


def ignore_answer(server: str, error: str) -> None:
    """Discards the event."""


def run_sync(mode: CodeMode, request: SyncRequest, on_asked: OnServerAnswered = ignore_answer) -> SyncReport:
    """Brings the catalog, tool files and index of a workspace up to date."""
    started = time.monotonic()
    entries = mode.resolved_servers.entries
    known = {entry.name for entry in entries}
    check_request(mode, request)
    stderr_of_failed: Mapping[str, str] = {}
    with exclusive_sync_lock(mode.deps.state):
        changes = forget_removed_servers(mode.catalog, known)
        seen = mode.catalog.pending_fingerprints()
        mode.record_stale_servers()
        search_path = environment().get("PATH", "")
        wanted = servers_to_ask(
            mode.catalog, select_entries(entries, request.servers), search_path, everything=request.refresh
        )
        failed: tuple[tuple[str, str], ...] = ()
        if wanted:
            connected = mode.connections
            asking = ask_servers(mode.catalog, wanted, connected.fresh_listing, on_asked, mode.trusted_servers)
            answers = connected.loop.run(asking)
            changes, failed = (*changes, *answers.changes), answers.failed
            statuses = connected.pool.status()
            stderr_of_failed = {server: statuses[server].stderr for server, _ in failed}
        if request.accept:
            changes += mode.catalog.accept_pending(request.servers or known, seen)
        wrote = update_tool_files(mode)
        before, now = read_last_sync(mode.deps.state), known_tool_names(mode.catalog, mode.custom)
        changes = unreported_changes(before, now, changes)
        if before != now:
            write_last_sync(mode.deps.state, now)
    counts = mode.catalog.tool_counts()
    return SyncReport(
        servers=len(entries),
        tools=sum(counts.values()),
        written=wrote.files,
        seconds=time.monotonic() - started,
        asked=tuple(wanted),
        changes=changes,
        failed=(*configuration_problems(mode), *failed),
        quarantined=mode.catalog.quarantined_tools(),
        plain_tokens=plain_tokens(mode.catalog),
        note=wrote.note,
        custom=len(mode.custom),
        stderr_of_failed=stderr_of_failed,
        answered_servers=count_answered_servers(mode.catalog),
        names=now,
        notices=collision_notices(known),
    )


def check_request(mode: CodeMode, request: SyncRequest) -> None:
    """Raises ValidationError for an unknown server, ConfigError if the configuration was not given."""
    known = {entry.name for entry in mode.resolved_servers.entries}
    for name in request.servers:
        if name not in known:
            hint = did_you_mean(name, known) if known else "None is configured."
            raise ValidationError.of("server", f"there is no server {name!r}", hint=hint)
    if not known and mode.deps.config.source is None and mode.catalog.servers():
        raise ConfigError(
            "no MCP servers are configured here, but tools of some are known; nothing was changed.",
            hint="Name the configuration that has them: --config F.",
        )


def count_answered_servers(catalog: Catalog) -> int:
    """Returns the number of servers that have ever answered."""
    return sum(1 for server in catalog.servers() if server.asked_at)


def configuration_problems(mode: CodeMode) -> tuple[tuple[str, str], ...]:
    """Returns the servers and custom tools that cannot be used as configured, and why."""
    servers = ((problem.server, problem.text) for problem in mode.resolved_servers.errors)
    return (*servers, *((problem.name, problem.text) for problem in mode.custom.problems))


def unreported_changes(
    before: ToolNames | None, now: ToolNames, changes: tuple[ToolChange, ...]
) -> tuple[ToolChange, ...]:
    """Returns all changes since the last reported sync; `changes` are those that this sync noticed."""
    if before is None:
        before = {server: () if server.startswith(CUSTOM_PREFIX) else tools for server, tools in now.items()}
    else:
        changes = tuple(change for change in changes if change.change is ChangeKind.CHANGED)
    return (*changes, *tool_differences(before, now))


def known_tool_names(catalog: Catalog, custom: CustomTools) -> ToolNames:
    """Returns the names of all tools; custom tools are under `tools/<group>`."""
    names = {server: list(catalog.tool_names(server)) for server in catalog.tool_counts()}
    for group, schemas in custom.groups.items():
        names[f"{CUSTOM_PREFIX}{group}"] = [schema.name.removeprefix(f"{group}.") for schema in schemas]
    return names


def plain_tokens(catalog: Catalog, servers: Collection[str] | None = None) -> int:
    """Returns the context tokens of all tools, if they were put into a model's context."""
    return sum(
        WrittenServer.from_json(server.written).tokens
        for server in catalog.servers()
        if servers is None or server.name in servers
    )
