"""What a sync would bring, without it: the servers are asked, and nothing is kept.

The catalog is copied to a temporary folder and the copy takes what the servers say, so the answer is the one that a
sync would give. Owns that folder and the connections while it runs.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from toolyard.codemode.catalog import FILE_NAME, Catalog
from toolyard.codemode.catalog_errors import catalog_faults
from toolyard.codemode.file_writer import injected_tokens
from toolyard.codemode.files import collision_notices
from toolyard.codemode.last_sync import read_told
from toolyard.codemode.sync import OnAsked, ask_servers, by_name, due, forget_others
from toolyard.codemode.sync_report import (
    SyncReport,
    SyncWish,
    check_wish,
    heard,
    known_names,
    problems,
    tell_nobody,
    untold,
)
from toolyard.config.settings import environment
from toolyard.mcp_client import ServerPool
from toolyard.storage.temp_folders import TemporaryFolder

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode

_KIND = "preview"


def preview(mode: CodeMode, wish: SyncWish, on_asked: OnAsked = tell_nobody) -> SyncReport:
    """What `sync` would report. Nothing is written, accepted or forgotten."""
    started = time.monotonic()
    entries = mode.resolved.entries
    check_wish(mode, wish)
    with TemporaryFolder(_KIND) as folder:
        _copy(mode.around.state, folder.path)
        with Catalog.open(folder.path) as catalog:
            changes = forget_others(catalog, {entry.name for entry in entries})
            search_path = environment().get("PATH", "")
            wanted = due(catalog, by_name(entries, wish.servers), search_path, everything=wish.refresh)
            asked_entries = [entry for entry in entries if entry.name in wanted]
            authorize = mode.around.on_authorize  # a sign-in is the user's act, and is kept
            with ServerPool(asked_entries, tokens_folder=mode.sign_ins, on_authorize=authorize) as pool:
                asked = pool.loop.run(ask_servers(catalog, wanted, pool.listing, on_asked, mode.trusted))
                said = pool.status()
            before, now = read_told(mode.around.state), known_names(catalog, mode.custom)
            return SyncReport(
                servers=len(entries),
                tools=sum(catalog.counts().values()),
                written=0,
                seconds=time.monotonic() - started,
                asked=tuple(wanted),
                changes=untold(before, now, (*changes, *asked.changes)),
                failed=(*problems(mode), *asked.failed),
                quarantined=catalog.quarantined(),
                plain_tokens=sum(
                    injected_tokens([tool.schema for tool in catalog.tools(server)]) for server in catalog.counts()
                ),
                custom=len(mode.custom),
                last_words={server: said[server].stderr for server, _ in asked.failed},
                heard=heard(catalog),
                names=now,
                notices=collision_notices(entry.name for entry in entries),
            )


def _copy(state: str, folder: str) -> None:
    """The catalog as it is now, also while others write to it."""
    path = os.path.join(state, FILE_NAME)
    if not os.path.exists(path):
        return
    with (
        catalog_faults(path),
        closing(sqlite3.connect(path)) as source,  # for reading alone it would leave files of its own behind
        closing(sqlite3.connect(os.path.join(folder, FILE_NAME))) as copy,
    ):
        source.backup(copy)
