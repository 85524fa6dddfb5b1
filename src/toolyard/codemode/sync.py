"""`sync`: asks the servers for their tools and pins them.

Servers are asked in parallel, and only those whose tools may have changed (see `server_fingerprint`), unless all are
requested. A server that does not answer keeps its pins and does not affect the others. One sync at a time runs on a
workspace; others wait.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.codemode.catalog import Catalog, ChangeKind, ToolChange
from toolyard.codemode.file_writer import write_groups, write_servers
from toolyard.codemode.generated_folder import SERVERS, TOOLS, GeneratedFolder, is_generated
from toolyard.codemode.search import ToolIndex
from toolyard.codemode.server_fingerprint import FRESH_SECONDS, evidence_of
from toolyard.config.models import ServerEntry
from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.upstream import ServerListing

if TYPE_CHECKING:
    from toolyard.codemode.tool_knowledge import ToolKnowledge

LOCK_NAME = "sync.lock"
_MAX_CONCURRENT = 8
_WAIT_SECONDS = 120.0
_LOCK_POLL_SECONDS = 0.05

ListServer = Callable[[str], Awaitable[ServerListing]]
OnServerAnswered = Callable[[str, str], None]
"""Receives the name of a server that has answered or failed, and the error."""


@dataclass(frozen=True, slots=True)
class SyncAnswers:
    """The answers of the servers."""

    servers: tuple[str, ...]
    """The servers that were asked."""
    changes: tuple[ToolChange, ...]
    failed: tuple[tuple[str, str], ...]


def servers_to_ask(
    catalog: Catalog, entries: Iterable[ServerEntry], search_path: str, *, everything: bool = False
) -> dict[str, str]:
    """Returns the servers whose tools may have changed, with their current fingerprints."""
    known = {server.name: server for server in catalog.servers()}
    now = time.time()
    found: dict[str, str] = {}
    for entry in entries:
        evidence, before = evidence_of(entry, search_path), known.get(entry.name)
        is_fresh = (
            before is not None
            and entry.command is not None  # changes of a remote server are not visible
            and not before.error
            and before.evidence == evidence
            and 0 <= now - before.asked_at < FRESH_SECONDS
        )
        if everything or not is_fresh:
            found[entry.name] = evidence
    return found


async def ask_servers(
    catalog: Catalog,
    wanted: dict[str, str],
    ask: ListServer,
    on_asked: OnServerAnswered,
    trusted: Collection[str] = (),
) -> SyncAnswers:
    """Asks each of `wanted` and records its tools. Changes of `trusted` servers are accepted."""
    few = asyncio.Semaphore(_MAX_CONCURRENT)
    changes: list[ToolChange] = []
    failed: list[tuple[str, str]] = []

    def record_failure(server: str, error: str) -> None:
        catalog.record_failure(server, error)
        failed.append((server, error))
        on_asked(server, error)

    async def ask_one(server: str, evidence: str) -> None:
        async with few:
            try:
                listing = await ask(server)
            except ToolyardError as error:
                record_failure(server, str(error))
                return
        try:
            changes.extend(catalog.record_listing(listing, evidence, is_trusted=server in trusted))
        except RecursionError:
            record_failure(
                server,
                f"A schema of {server} is nested too deeply to be stored. Remove this server from the configuration.",
            )
        else:
            on_asked(server, "")

    await asyncio.gather(*(ask_one(server, evidence) for server, evidence in wanted.items()))
    return SyncAnswers(tuple(wanted), tuple(changes), tuple(sorted(failed)))


def forget_removed_servers(catalog: Catalog, names: Collection[str]) -> tuple[ToolChange, ...]:
    """Removes servers that are no longer configured. Returns the tools that were removed with them."""
    gone = [server.name for server in catalog.servers() if server.name not in names]
    changes = [ToolChange(server, tool, ChangeKind.REMOVED) for server in gone for tool in catalog.tool_names(server)]
    for server in gone:
        catalog.forget_server(server)
    return tuple(changes)


@contextmanager
def exclusive_sync_lock(state: str) -> Generator[None]:
    """Prevents other processes from syncing this workspace while the block runs. Raises SystemFault after a long
    wait.
    """
    fd = os.open(os.path.join(state, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _WAIT_SECONDS
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise SystemFault(
                        "Another `toolyard sync` of this workspace has been running for too long.",
                        hint="End it, then try again.",
                    ) from None
                time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(fd)


def select_entries(entries: Sequence[ServerEntry], wanted: Collection[str]) -> list[ServerEntry]:
    """Returns the wanted entries, or all if none is named."""
    return [entry for entry in entries if not wanted or entry.name in wanted]


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """The result of an update."""

    files: int
    note: str
    """The note of the search index."""


def update_tool_files(mode: ToolKnowledge) -> FileUpdate:
    """Writes the files that differ."""
    root = mode.root
    groups = mode.custom.unwrapped_groups
    with ToolIndex.open_writable(mode.index_path, semantic=mode.is_semantic) as index:
        with GeneratedFolder(root, SERVERS, mode.deps.state) as servers:
            count = write_servers(mode.catalog, index, servers, mode.server_folders, mode.deps.list_own_tools())
        if groups or is_generated(root.path, TOOLS, mode.deps.state):
            with GeneratedFolder(root, TOOLS, mode.deps.state) as tools:
                count += write_groups(index, tools, groups)
        return FileUpdate(count, index.note)
