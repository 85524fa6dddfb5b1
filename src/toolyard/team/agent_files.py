"""Reports file changes of an agent during a run, and takes a snapshot when the agent answers.

AgentFiles subscribes to the snapshots of one open workspace. Its callbacks run in the snapshot thread; it passes the
events to the run's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from toolyard.codemode.broker_handler import SURFACE as CODE_SURFACE
from toolyard.core.errors import ToolyardError
from toolyard.snapshots import DiffLimits
from toolyard.snapshots.service.change_authors import changes_by_author
from toolyard.snapshots.service.format import changed_paths
from toolyard.team.events import FileOperated, FilesChanged, Notice, TeamEvent

if TYPE_CHECKING:
    from toolyard.app.yard import Yard
    from toolyard.snapshots import Diff, Snapshot, SnapshotResult
    from toolyard.workspace.file_tool_detector import Callback, FileOperation

_MAX_PATHS: Final = 200
_LIMITS: Final = DiffLimits(changes=10_000, chars=0, collapse_git=True)
_SHARE_SECONDS: Final = 10.0
UPSTREAM: Final = "call"
"""Kind of the tools that belong to upstream MCP servers."""


def operation_listener(
    agent: str, on_event: Callable[[TeamEvent], None], current_round: Callable[[], int]
) -> Callback:
    """Returns a detector callback, callable from any thread, that calls `on_event` on the running event loop."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def on_operation(operation: FileOperation) -> None:
        event = FileOperated(
            agent=agent,
            round=current_round(),
            tool=operation.tool_name,
            outcome=operation.outcome.value,
            paths=operation.paths[:_MAX_PATHS],
            changes_files=operation.changes_files,
            snapshot=operation.snapshot,
            from_code=operation.origin.surface == CODE_SURFACE,
        )
        if threading.get_ident() == thread:
            on_event(event)
            return
        with contextlib.suppress(RuntimeError):  # the run is over and its loop is closed
            loop.call_soon_threadsafe(on_event, event)

    return on_operation


class AgentFiles:
    """Watches the files of one agent during a run."""

    def __init__(self, yard: Yard, on_event: Callable[[TeamEvent], None]) -> None:
        """Must be created on the run's event loop, where `on_event` is called."""
        self._yard = yard
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self.round = 0
        yard.snapshots.on_snapshot(self._on_snapshot)
        yard.detector.register_callback(operation_listener(yard.agent, on_event, lambda: self.round))

    def _on_snapshot(self, taken: SnapshotResult) -> None:
        """Emits FilesChanged for a new snapshot. Runs in the snapshot thread."""
        snapshot = taken.snapshot
        if not taken.changed or snapshot.parent is None:
            return
        try:
            diff = self._yard.snapshots.store.diff(snapshot.parent, snapshot.id, limits=_LIMITS)
            by_author = self._changes_by_author(diff, snapshot)
        except (ToolyardError, OSError, sqlite3.Error):
            return  # the snapshot exists anyway, and the answer names it
        for agent, part in by_author.items():
            event = FilesChanged(
                agent=agent,
                round=self.round,
                paths=tuple(islice(changed_paths(part), _MAX_PATHS)),
                total=part.total,
                snapshot=snapshot.id,
            )
            if part.total and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._on_event, event)

    def _changes_by_author(self, diff: Diff, snapshot: Snapshot) -> dict[str, Diff]:
        """Splits the changes by agent if several work in this folder; otherwise all belong to this agent."""
        snapshots = self._yard.snapshots
        parent = snapshots.store.get(snapshot.parent or snapshot.id)
        interval = snapshots.calls.interval(parent.time_ns, snapshot.time_ns)
        return {self._yard.agent: diff} if interval is None else changes_by_author(diff, interval)

    async def take_snapshot(self, reason: str) -> str:
        """Takes a snapshot, shares it with the peers and returns its id; "" for an agent without file tools."""
        if all(tool.kind == UPSTREAM for tool in self._yard.dispatch.tools.values()):
            return ""
        try:
            return await asyncio.to_thread(self._create_snapshot, reason)
        except (ToolyardError, OSError, sqlite3.Error) as error:  # the answer counts even without a snapshot
            text = f"No snapshot of its files could be taken with this answer: {error}"
            self._on_event(Notice(agent=self._yard.agent, round=self.round, text=text))
            return ""

    def _create_snapshot(self, reason: str) -> str:
        snapshot = self._yard.snapshots.create(reason=reason).snapshot
        if self._yard.sharing is not None:
            self._yard.sharing.flush(_SHARE_SECONDS)
        return snapshot.id
