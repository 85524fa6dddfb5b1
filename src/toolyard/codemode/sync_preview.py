"""Previews a sync: asks the servers and stores nothing.

The servers' answers are recorded in a copy of the catalog in a temporary folder, so that the result is the same as
that of a sync. Owns that folder and the connections while it runs.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from toolyard.codemode.catalog import FILE_NAME, Catalog, translate_catalog_errors
from toolyard.codemode.file_writer import injected_tokens
from toolyard.codemode.files import collision_notices
from toolyard.codemode.last_sync import read_last_sync
from toolyard.codemode.sync import (
    OnServerAnswered,
    ask_servers,
    forget_removed_servers,
    select_entries,
    servers_to_ask,
)
from toolyard.codemode.sync_report import (
    SyncReport,
    SyncRequest,
    check_request,
    configuration_problems,
    count_answered_servers,
    ignore_answer,
    known_tool_names,
    unreported_changes,
)
from toolyard.config.settings import environment
from toolyard.mcp_client import ServerPool
from toolyard.storage.temp_folders import TemporaryFolder

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode

_FOLDER_KIND = "preview"


def preview_sync(mode: CodeMode, request: SyncRequest, on_asked: OnServerAnswered = ignore_answer) -> SyncReport:
    """Returns the report that `sync` would return. Nothing is written, accepted or forgotten."""
    started = time.monotonic()
    entries = mode.resolved_servers.entries
    check_request(mode, request)
    with TemporaryFolder(_FOLDER_KIND) as folder:
        _copy_catalog(mode.deps.state, folder.path)
        with Catalog.open(folder.path) as catalog:
            changes = forget_removed_servers(catalog, {entry.name for entry in entries})
            search_path = environment().get("PATH", "")
            wanted = servers_to_ask(
                catalog, select_entries(entries, request.servers), search_path, everything=request.refresh
            )
            asked_entries = [entry for entry in entries if entry.name in wanted]
            authorize = mode.deps.on_authorize  # a sign-in is the user's action, and is stored
            with ServerPool(asked_entries, tokens_folder=mode.sign_in_folder, on_authorize=authorize) as pool:
                answers = pool.loop.run(
                    ask_servers(catalog, wanted, pool.server_listing, on_asked, mode.trusted_servers)
                )
                statuses = pool.status()
            before, now = read_last_sync(mode.deps.state), known_tool_names(catalog, mode.custom)
            return SyncReport(
                servers=len(entries),
                tools=sum(catalog.tool_counts().values()),
                written=0,
                seconds=time.monotonic() - started,
                asked=tuple(wanted),
                changes=unreported_changes(before, now, (*changes, *answers.changes)),
                failed=(*configuration_problems(mode), *answers.failed),
                quarantined=catalog.quarantined_tools(),
                plain_tokens=sum(
                    injected_tokens([tool.schema for tool in catalog.tools(server)])
                    for server in catalog.tool_counts()
                ),
                custom=len(mode.custom),
                stderr_of_failed={server: statuses[server].stderr for server, _ in answers.failed},
                answered_servers=count_answered_servers(catalog),
                names=now,
                notices=collision_notices(entry.name for entry in entries),
            )


def _copy_catalog(state: str, folder: str) -> None:
    """Copies the current catalog, even while others write to it."""
    path = os.path.join(state, FILE_NAME)
    if not os.path.exists(path):
        return
    with (
        translate_catalog_errors(path),
        closing(sqlite3.connect(path)) as source,  # a read-only connection would leave files behind
        closing(sqlite3.connect(os.path.join(folder, FILE_NAME))) as copy,
    ):
        source.backup(copy)
