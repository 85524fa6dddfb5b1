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

from toolyard.config.snapshots import BASELINE
from toolyard.core.errors import ToolyardError
from toolyard.snapshots import Diff, DiffLimits, Snapshot, SnapshotStore
from toolyard.snapshots.service.auto_snapshots import Place
from toolyard.snapshots.service.change_authors import changes_by_author, recorded_authors
from toolyard.snapshots.service.format import paths_of

_MOST_PATHS: Final = 1000
_LIMITS: Final = DiffLimits(changes=10_000, chars=0, folds_git=True)
_LOOK_SECONDS: Final = 5.0
"""So long the last message waits for the paths."""


class Changes(NamedTuple):
    paths: tuple[str, ...] = ()
    snapshot: str = ""
    before: str = ""


async def changes_since(place: Place, began_ns: int) -> Changes:
    """What differs now. Nothing where no snapshot was taken since, or where they cannot be read in time."""
    looking = asyncio.create_task(asyncio.to_thread(_looked, place, began_ns))
    done, _ = await asyncio.wait({looking}, timeout=_LOOK_SECONDS)
    return looking.result() if done else Changes()


def _looked(place: Place, began_ns: int) -> Changes:
    if not os.path.isdir(place.folder):  # opening a store would make one
        return Changes()
    try:
        with closing(SnapshotStore(place.folder)) as store:
            ends = ends_of(store.list(place.root), began_ns)
            return _between(store, place, *ends) if ends is not None else Changes()
    except (ToolyardError, OSError, sqlite3.Error):  # the run is over, whatever has become of its snapshots
        return Changes()


def ends_of(every: Sequence[Snapshot], began_ns: int) -> tuple[Snapshot, Snapshot] | None:
    """The snapshots before the first change of the run and after its last. `every` has the newest first."""
    taken = [each for each in every if each.time_ns >= began_ns]
    if not taken:
        return None
    first, last = taken[-1], taken[0]
    if first.reason == BASELINE:
        return first, last
    before = every[len(taken)] if len(taken) < len(every) else None
    return (before, last) if before is not None else None


def _between(store: SnapshotStore, place: Place, before: Snapshot, after: Snapshot) -> Changes:
    found = _own_part(store.diff(before.id, after.id, limits=_LIMITS), place, before, after)
    if found is None or not found.total:
        return Changes()
    return Changes(tuple(islice(paths_of(found), _MOST_PATHS)), after.id, before.id)


def _own_part(found: Diff, place: Place, before: Snapshot, after: Snapshot) -> Diff | None:
    """What the agent of the run changed; everything, where no other works in the folder."""
    if not place.authors:
        return found
    with recorded_authors(place.authors) as authors:
        if authors is None or not authors.has_others(place.root, place.agent):
            return found
        interval = authors.interval(place.root, before.time_ns, after.time_ns)
        return changes_by_author(found, interval).get(place.agent)
