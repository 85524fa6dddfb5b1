"""Makes sure that the tools of all servers are known, and written as files for code, before agents start.

Only servers that never answered, or whose configuration changed, are asked; known servers are not started. A server
that fails is reported and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.app.yard import Yard
from toolyard.codemode.server_fingerprint import evidence_of
from toolyard.codemode.sync import (
    OnServerAnswered,
    ask_servers,
    exclusive_sync_lock,
    forget_removed_servers,
    update_tool_files,
)
from toolyard.codemode.sync_report import configuration_problems, ignore_answer
from toolyard.config.settings import environment

if TYPE_CHECKING:
    from toolyard.app.yard_options import YardOptions
    from toolyard.codemode.service import CodeMode


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """What a sync before a run found and wrote."""

    servers: int
    """How many servers the agent may use."""
    tools: int
    """How many tools of these servers are known."""
    asked: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Servers that failed or are misconfigured, and custom tools that cannot be loaded, each with the reason."""
    written: int = 0
    """How many files were written."""


def sync_before_run(
    options: YardOptions, on_asked: OnServerAnswered = ignore_answer, stop: Future[None] | None = None
) -> SyncSummary:
    """Runs `sync_missing` for the agent of these options, before its yard is opened. Blocks."""
    plain = replace(options, injection=None, begins_session=False)
    with Yard.open(plain) as yard:
        return sync_missing(yard.codemode, on_asked, write_files=options.has_code_mode, stop=stop)


def sync_missing(
    codemode: CodeMode,
    on_asked: OnServerAnswered = ignore_answer,
    *,
    write_files: bool = True,
    stop: Future[None] | None = None,
) -> SyncSummary:
    """Asks servers whose tools are unknown; with `write_files`, updates tool files and index. Blocks.

    Covers the servers that the agent may use, or all of them if no agent is named. Cancelling `stop` from another
    thread aborts the sync, which then raises CancelledError.
    """
    failed: tuple[tuple[str, str], ...] = ()
    wanted: dict[str, str] = {}
    written = 0
    usable = _usable_servers(codemode)
    if usable or write_files:
        with exclusive_sync_lock(codemode.deps.state):
            if write_files:  # the files list only what is configured
                forget_removed_servers(codemode.catalog, {entry.name for entry in codemode.resolved_servers.entries})
            wanted = dict(_servers_to_ask(codemode, usable))
            if wanted:
                connected = codemode.connections
                asking = ask_servers(
                    codemode.catalog, wanted, connected.fresh_listing, on_asked, codemode.trusted_servers
                )
                answers = connected.loop.submit(asking)
                if stop is not None:
                    stop.add_done_callback(lambda _: answers.cancel())
                failed = answers.result().failed
            written = update_tool_files(codemode).files if write_files else 0
    counts: Mapping[str, int] = codemode.catalog.tool_counts() if usable else {}
    return SyncSummary(
        servers=len(usable),
        tools=sum(counts.get(name, 0) for name in usable),
        asked=tuple(wanted),
        failed=(*configuration_problems(codemode), *failed),
        written=written,
    )


def _usable_servers(codemode: CodeMode) -> tuple[str, ...]:
    names = (entry.name for entry in codemode.resolved_servers.entries)
    if codemode.deps.agent_id is None and len(codemode.deps.config.agents) > 1:
        return tuple(names)
    return tuple(name for name in names if codemode.authorization.may_use(name))


def _servers_to_ask(codemode: CodeMode, usable: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields the servers to be asked, each with its current fingerprint."""
    known = {server.name: server for server in codemode.catalog.servers()}
    search_path = environment().get("PATH", "")
    for entry in codemode.resolved_servers.entries:
        if entry.name in usable:
            before, evidence = known.get(entry.name), evidence_of(entry, search_path)
            # Changes of a remote server cannot be detected here: its last answer is valid until the next sync.
            if before is None or not before.asked_at or before.evidence != evidence:
                yield entry.name, evidence
