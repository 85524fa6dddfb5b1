"""Snapshots of folders: taken cheaply, compared, restored, collected, verified. See store.py."""

from __future__ import annotations

from toolyard.snapshots.archive.ignore_rules import DEFAULT_RULES, IGNORE_FILE
from toolyard.snapshots.diff.collapse_git import Folded
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits
from toolyard.snapshots.diff.tree_diff import Change, What
from toolyard.snapshots.restore.restorer import Restored
from toolyard.snapshots.snapshot_store import LATEST, SnapshotStore, StoreOptions
from toolyard.snapshots.store.check import Harm, Verified
from toolyard.snapshots.store.models import Counts, Damaged, Note, Snapshot, Taken, Work
from toolyard.snapshots.store.objects import Entry, Kind
from toolyard.snapshots.store.prune import Collected
from toolyard.snapshots.store.repair_index import Rebuilt

__all__ = [
    "DEFAULT_RULES",
    "IGNORE_FILE",
    "LATEST",
    "Change",
    "Collected",
    "Counts",
    "Damaged",
    "Diff",
    "DiffLimits",
    "Entry",
    "Folded",
    "Harm",
    "Kind",
    "Note",
    "Rebuilt",
    "Restored",
    "Snapshot",
    "SnapshotStore",
    "StoreOptions",
    "Taken",
    "Verified",
    "What",
    "Work",
]
