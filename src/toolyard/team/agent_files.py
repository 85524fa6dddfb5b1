"""What an agent's files are to a run: told when they change, and held by a snapshot when it answers.

An AgentFiles listens to the snapshots of one open workspace, in the thread that takes them, and tells the run in its
own loop.
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
"""The kind of tools that are somebody else's."""


def operation_listener(
    agent: str, on_event: Callable[[TeamEvent], None], current_round: Callable[[], int]
) -> Callback:
    """A callback for a detector, in any thread, that has `on_event` called in the loop that runs now."""
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
        with contextlib.suppress(RuntimeError):  # the run is over, and its loop has closed
            loop.call_soon_threadsafe(on_event, event)

    return on_operation


class AgentFiles:
    def __init__(self, yard: Yard, on_event: Callable[[TeamEvent], None]) -> None:
        """In the run's loop. `on_event` is called there."""
        self._yard = yard
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self.round = 0
        yard.snapshots.on_snapshot(self._on_snapshot)
        yard.detector.register_callback(operation_listener(yard.agent, on_event, lambda: self.round))

    def _on_snapshot(self, taken: SnapshotResult) -> None:
        """In the keeper's thread."""
        snapshot = taken.snapshot
        if not taken.changed or snapshot.parent is None:
            return
        try:
            found = self._yard.snapshots.store.diff(snapshot.parent, snapshot.id, limits=_LIMITS)
            by_author = self._changes_by_author(found, snapshot)
        except (ToolyardError, OSError, sqlite3.Error):
            return  # the snapshot is there all the same, and the answer names it
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

    def _changes_by_author(self, found: Diff, snapshot: Snapshot) -> dict[str, Diff]:
        """The changes of each agent, where several work in this folder; otherwise all of them are this agent's."""
        keeper = self._yard.snapshots
        parent = keeper.store.get(snapshot.parent or snapshot.id)
        interval = keeper.calls.interval(parent.time_ns, snapshot.time_ns)
        return {self._yard.agent: found} if interval is None else changes_by_author(found, interval)

    async def take_snapshot(self, reason: str) -> str:
        """A snapshot of now, shared with the peers; its id. Empty for an agent that has no files to work on."""
        if all(tool.kind == UPSTREAM for tool in self._yard.dispatch.tools.values()):
            return ""
        try:
            return await asyncio.to_thread(self._create_snapshot, reason)
        except (ToolyardError, OSError, sqlite3.Error) as error:  # the answer stands all the same
            text = f"Its files could not be kept with this answer: {error}"
            self._on_event(Notice(agent=self._yard.agent, round=self.round, text=text))
            return ""

    def _create_snapshot(self, reason: str) -> str:
        snapshot = self._yard.snapshots.create(reason=reason).snapshot
        if self._yard.sharing is not None:
            self._yard.sharing.flush(_SHARE_SECONDS)
        return snapshot.id
