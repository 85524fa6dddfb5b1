"""Snapshots of folders: create, compare, restore, prune and verify them. See snapshot_store.py."""

from __future__ import annotations

from toolyard.snapshots.archive.ignore_rules import DEFAULT_RULES, IGNORE_FILE
from toolyard.snapshots.diff.collapse_git import CollapsedGitFolder
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits
from toolyard.snapshots.diff.tree_diff import ChangeType, PathChange
from toolyard.snapshots.restore.restorer import RestoreResult
from toolyard.snapshots.snapshot_store import LATEST, SnapshotStore, StoreOptions
from toolyard.snapshots.store.check import DamagedPath, VerifyResult
from toolyard.snapshots.store.models import (
    Counts,
    DamagedObjectError,
    PathNote,
    Snapshot,
    SnapshotCost,
    SnapshotResult,
)
from toolyard.snapshots.store.objects import EntryKind, TreeEntry
from toolyard.snapshots.store.prune import PruneResult
from toolyard.snapshots.store.repair_index import RebuildResult

__all__ = [
    "DEFAULT_RULES",
    "IGNORE_FILE",
    "LATEST",
    "ChangeType",
    "CollapsedGitFolder",
    "Counts",
    "DamagedObjectError",
    "DamagedPath",
    "Diff",
    "DiffLimits",
    "EntryKind",
    "PathChange",
    "PathNote",
    "PruneResult",
    "RebuildResult",
    "RestoreResult",
    "Snapshot",
    "SnapshotCost",
    "SnapshotResult",
    "SnapshotStore",
    "StoreOptions",
    "TreeEntry",
    "VerifyResult",
]
