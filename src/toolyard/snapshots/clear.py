"""Emptying a folder, so that everything can be had back: what a snapshot holds goes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.core.errors import SystemFault
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.archive.walk_keys import root_prefix
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.diff.tree_diff import compare_trees
from toolyard.snapshots.restore.plan import RestorePlan
from toolyard.snapshots.restore.restorer import Restorer, RestoreResult
from toolyard.snapshots.restore.unchanged_check import UnchangedCheck
from toolyard.snapshots.store.lock import no_check

if TYPE_CHECKING:
    from toolyard.snapshots.snapshot_store import SnapshotStore


def clear_folder(
    store: SnapshotStore, root: str, *, agent: str = "", reason: str = "", check: Callable[[], None] = no_check
) -> RestoreResult:
    """Take a snapshot of a folder, then remove what it holds. Nothing is touched unless the snapshot was taken.

    What is ignored, could not be read, or changed meanwhile stays and is told. Restoring `before` undoes it.
    """
    with RootFolder(root) as folder, store.open_for_writing(check) as index:
        before = store.create_with_index(folder, index, agent, reason, check).snapshot
        now = root_entry(before)
        held = UnchangedCheck(root_prefix(folder), index.cached_page)
        with store.reader() as reader, Restorer(folder, reader, held, now, check, overwrite_torn=False) as restoring:
            removals = [
                change
                for change in compare_trees(reader, reader, (now, None), b"", restoring.record_damage)
                if change.path
            ]
            try:
                restoring.run(RestorePlan(removals=removals[::-1]))
            except OSError as error:
                raise SystemFault(
                    f"{root} was emptied only in part: {error.strerror}.", hint=f"Restore {before.id} to undo it."
                ) from error
            return restoring.result(before, before)
