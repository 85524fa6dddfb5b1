"""Empties a folder after taking a snapshot of it. Only files that the snapshot contains are removed."""

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
    """Takes a snapshot of a folder, then removes everything that the snapshot contains.

    Nothing is removed unless the snapshot was taken. Files that are ignored, unreadable or changed in the meantime
    stay and are listed in the result. Restoring `before` undoes it.
    """
    with RootFolder(root) as folder, store.open_for_writing(check) as index:
        before = store.create_with_index(folder, index, agent, reason, check).snapshot
        now = root_entry(before)
        unchanged = UnchangedCheck(root_prefix(folder), index.cached_page)
        with (
            store.reader() as reader,
            Restorer(folder, reader, unchanged, now, check, overwrite_torn=False) as restorer,
        ):
            removals = [
                change
                for change in compare_trees(reader, reader, (now, None), b"", restorer.record_damage)
                if change.path
            ]
            try:
                restorer.run(RestorePlan(removals=removals[::-1]))
            except OSError as error:
                raise SystemFault(
                    f"{root} was only partly emptied: {error.strerror}.", hint=f"Restore {before.id} to undo it."
                ) from error
            return restorer.result(before, before)
