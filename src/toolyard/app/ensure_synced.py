"""Before agents set to work: the tools of their servers are known, and written as files where code calls them.

Only servers that never answered, or whose entry is another one by now, are asked; a server that is known is not
started. One that fails is told of and costs the others nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.app.yard import Yard
from toolyard.codemode.server_fingerprint import evidence_of
from toolyard.codemode.sync import OnServerAnswered, ask_servers, exclusive_sync_lock, forget_removed_servers
from toolyard.codemode.sync_report import configuration_problems, ignore_answer
from toolyard.codemode.update_files import update_tool_files
from toolyard.config.settings import environment

if TYPE_CHECKING:
    from toolyard.app.yard_options import YardOptions
    from toolyard.codemode.service import CodeMode


@dataclass(frozen=True, slots=True)
class SyncSummary:
    servers: int
    """How many the agent may use."""
    tools: int
    """How many tools of those are known now."""
    asked: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Servers that could not be asked or are not configured well, and custom tools that cannot be had, and why."""
    written: int = 0
    """Files."""


def sync_before_run(
    options: YardOptions, on_asked: OnServerAnswered = ignore_answer, stop: Future[None] | None = None
) -> SyncSummary:
    """`sync_missing` for the agent that these options are of, before its yard is opened with its tools. Blocks."""
    plain = replace(options, injection=None, begins_session=False)
    with Yard.open(plain) as yard:
        return sync_missing(yard.codemode, on_asked, write_files=options.has_code_mode, stop=stop)


def sync_missing(
    mode: CodeMode,
    on_asked: OnServerAnswered = ignore_answer,
    *,
    write_files: bool = True,
    stop: Future[None] | None = None,
) -> SyncSummary:
    """Ask what is not known, and with `write_files` bring tool files and index up to it. Blocks.

    Of the servers that the agent may use; of all of them where none is named. Whoever cancels `stop`, from another
    thread, ends the asking: this raises CancelledError then.
    """
    failed: tuple[tuple[str, str], ...] = ()
    wanted: dict[str, str] = {}
    written = 0
    usable = _usable_servers(mode)
    if usable or write_files:
        with exclusive_sync_lock(mode.deps.state):
            if write_files:  # the files tell what is configured, and nothing else
                forget_removed_servers(mode.catalog, {entry.name for entry in mode.resolved_servers.entries})
            wanted = dict(_servers_to_ask(mode, usable))
            if wanted:
                connected = mode.connections
                asking = ask_servers(mode.catalog, wanted, connected.fresh_listing, on_asked, mode.trusted_servers)
                answers = connected.loop.submit(asking)
                if stop is not None:
                    stop.add_done_callback(lambda _: answers.cancel())
                failed = answers.result().failed
            written = update_tool_files(mode).files if write_files else 0
    counts: Mapping[str, int] = mode.catalog.tool_counts() if usable else {}
    return SyncSummary(
        servers=len(usable),
        tools=sum(counts.get(name, 0) for name in usable),
        asked=tuple(wanted),
        failed=(*configuration_problems(mode), *failed),
        written=written,
    )


def _usable_servers(mode: CodeMode) -> tuple[str, ...]:
    names = (entry.name for entry in mode.resolved_servers.entries)
    if mode.deps.agent_id is None and len(mode.deps.config.agents) > 1:
        return tuple(names)
    return tuple(name for name in names if mode.authorization.may_use(name))


def _servers_to_ask(mode: CodeMode, usable: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The servers to be asked, each with the evidence as it is now."""
    known = {server.name: server for server in mode.catalog.servers()}
    search_path = environment().get("PATH", "")
    for entry in mode.resolved_servers.entries:
        if entry.name in usable:
            before, evidence = known.get(entry.name), evidence_of(entry, search_path)
            # Of a remote server nothing can be seen from here: what it said once stands until the next sync.
            if before is None or not before.asked_at or before.evidence != evidence:
                yield entry.name, evidence
