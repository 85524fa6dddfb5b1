"""What a run changed in its workspace: what the snapshots say that were taken meanwhile.

Where several agents work in the folder, the changes of the run are those that its agent's calls made.
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
"""So long the last message waits for the paths."""


class WorkspaceChanges(NamedTuple):
    paths: tuple[str, ...] = ()
    snapshot: str = ""
    before: str = ""


async def changes_since(location: SnapshotLocation, began_ns: int) -> WorkspaceChanges:
    """What differs now. Nothing where no snapshot was taken since, or where they cannot be read in time."""
    looking = asyncio.create_task(asyncio.to_thread(_read_changes, location, began_ns))
    done, _ = await asyncio.wait({looking}, timeout=_READ_TIMEOUT_SECONDS)
    return looking.result() if done else WorkspaceChanges()


def _read_changes(location: SnapshotLocation, began_ns: int) -> WorkspaceChanges:
    if not os.path.isdir(location.folder):  # opening a store would make one
        return WorkspaceChanges()
    try:
        with closing(SnapshotStore(location.folder)) as store:
            ends = boundary_snapshots(store.list(location.root), began_ns)
            return _changes_between(store, location, *ends) if ends is not None else WorkspaceChanges()
    except (ToolyardError, OSError, sqlite3.Error):  # the run is over, whatever has become of its snapshots
        return WorkspaceChanges()


def boundary_snapshots(snapshots: Sequence[Snapshot], began_ns: int) -> tuple[Snapshot, Snapshot] | None:
    """The snapshots before the first change of the run and after its last. `snapshots` has the newest first."""
    taken = [each for each in snapshots if each.time_ns >= began_ns]
    if not taken:
        return None
    first, last = taken[-1], taken[0]
    if first.reason == BASELINE_REASON:
        return first, last
    before = snapshots[len(taken)] if len(taken) < len(snapshots) else None
    return (before, last) if before is not None else None


def _changes_between(
    store: SnapshotStore, location: SnapshotLocation, before: Snapshot, after: Snapshot
) -> WorkspaceChanges:
    found = _own_changes(store.diff(before.id, after.id, limits=_LIMITS), location, before, after)
    if found is None or not found.total:
        return WorkspaceChanges()
    return WorkspaceChanges(tuple(islice(changed_paths(found), _MAX_PATHS)), after.id, before.id)


def _own_changes(diff: Diff, location: SnapshotLocation, before: Snapshot, after: Snapshot) -> Diff | None:
    """What the agent of the run changed; everything, where no other works in the folder."""
    if not location.authors_folder:
        return diff
    with open_recorded_authors(location.authors_folder) as authors:
        if authors is None or not authors.has_others(location.root, location.agent):
            return diff
        interval = authors.interval(location.root, before.time_ns, after.time_ns)
        return changes_by_author(diff, interval).get(location.agent)
