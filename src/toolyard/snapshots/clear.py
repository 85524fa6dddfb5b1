"""Emptying a folder, so that everything can be had back: what a snapshot holds goes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.core.errors import SystemFault
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.archive.walk_keys import root_prefix
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.diff.tree_diff import compare
from toolyard.snapshots.restore.plan import Plan
from toolyard.snapshots.restore.restorer import Restored, Restoring
from toolyard.snapshots.restore.unchanged_check import Held
from toolyard.snapshots.store.lock import never_mind

if TYPE_CHECKING:
    from toolyard.snapshots.snapshot_store import SnapshotStore


def empty(
    store: SnapshotStore, root: str, *, agent: str = "", reason: str = "", check: Callable[[], None] = never_mind
) -> Restored:
    """Take a snapshot of a folder, then remove what it holds. Nothing is touched unless the snapshot was taken.

    What is ignored, could not be read, or changed meanwhile stays and is told. Restoring `before` undoes it.
    """
    with RootFolder(root) as folder, store.writing(check) as index:
        before = store.take(folder, index, agent, reason, check).snapshot
        now = top_of(before)
        held = Held(root_prefix(folder), index.seen)
        with store.reader() as reader, Restoring(folder, reader, held, now, check, overwrite_torn=False) as restoring:
            removals = [
                change for change in compare(reader, reader, (now, None), b"", restoring.damaged) if change.path
            ]
            try:
                restoring.run(Plan(removals=removals[::-1]))
            except OSError as error:
                raise SystemFault(
                    f"{root} was emptied only in part: {error.strerror}.", hint=f"Restore {before.id} to undo it."
                ) from error
            return restoring.result(before, before)
