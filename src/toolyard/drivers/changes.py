"""Determines what a run changed in its workspace, from the snapshots taken during the run.

If several agents work in the folder, only changes made by calls of the run's agent count.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from typing import Final, NamedTuple

from toolyard.config.snapshots import BASELINE_REASON
from toolyard.core.errors import ToolyardError
from toolyard.snapshots import Diff, DiffLimits, Snapshot, SnapshotStore
from toolyard.snapshots.service.auto_snapshots import SnapshotLocation
from toolyard.snapshots.service.change_authors import changes_by_author, open_recorded_authors
from toolyard.snapshots.service.format import changed_paths

_MAX_PATHS: Final = 1000
_LIMITS: Final = DiffLimits(changes=10_000, chars=0, collapse_git=True)
_READ_TIMEOUT_SECONDS: Final = 5.0
"""Maximum delay of the last message."""


class WorkspaceChanges(NamedTuple):
    """Paths that a run changed, and the snapshots after and before it."""

    paths: tuple[str, ...] = ()
    snapshot: str = ""
    before: str = ""


async def changes_since(location: SnapshotLocation, began_ns: int) -> WorkspaceChanges:
    """Returns the changes since `began_ns`; empty without a new snapshot or if reading takes too long."""
    reading = asyncio.create_task(asyncio.to_thread(_read_changes, location, began_ns))
    done, _ = await asyncio.wait({reading}, timeout=_READ_TIMEOUT_SECONDS)
    return reading.result() if done else WorkspaceChanges()


def _read_changes(location: SnapshotLocation, began_ns: int) -> WorkspaceChanges:
    if not os.path.isdir(location.folder):  # opening a store would create it
        return WorkspaceChanges()
    try:
        with closing(SnapshotStore(location.folder)) as store:
            ends = boundary_snapshots(store.list(location.root), began_ns)
            return _changes_between(store, location, *ends) if ends is not None else WorkspaceChanges()
    except (ToolyardError, OSError, sqlite3.Error):  # the run has ended; unreadable snapshots must not fail it
        return WorkspaceChanges()


def boundary_snapshots(snapshots: Sequence[Snapshot], began_ns: int) -> tuple[Snapshot, Snapshot] | None:
    """Returns the snapshots before the first and after the last change of the run. `snapshots` is newest first."""
    new = [each for each in snapshots if each.time_ns >= began_ns]
    if not new:
        return None
    first, last = new[-1], new[0]
    if first.reason == BASELINE_REASON:
        return first, last
    before = snapshots[len(new)] if len(new) < len(snapshots) else None
    return (before, last) if before is not None else None


def _changes_between(
    store: SnapshotStore, location: SnapshotLocation, before: Snapshot, after: Snapshot
) -> WorkspaceChanges:
    diff = _own_changes(store.diff(before.id, after.id, limits=_LIMITS), location, before, after)
    if diff is None or not diff.total:
        return WorkspaceChanges()
    return WorkspaceChanges(tuple(islice(changed_paths(diff), _MAX_PATHS)), after.id, before.id)


def _own_changes(diff: Diff, location: SnapshotLocation, before: Snapshot, after: Snapshot) -> Diff | None:
    """Returns the changes of the run's agent, or all changes if no other agent works in the folder."""
    if not location.authors_folder:
        return diff
    with open_recorded_authors(location.authors_folder) as authors:
        if authors is None or not authors.has_others(location.root, location.agent):
            return diff
        interval = authors.interval(location.root, before.time_ns, after.time_ns)
        return changes_by_author(diff, interval).get(location.agent)
