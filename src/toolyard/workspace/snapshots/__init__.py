"""Snapshots of folders: taken cheaply, compared, restored, collected, verified. See store.py."""

from __future__ import annotations

from toolyard.workspace.snapshots.collecting import Collected
from toolyard.workspace.snapshots.comparing import Change, What
from toolyard.workspace.snapshots.diffs import Diff, DiffLimits
from toolyard.workspace.snapshots.folding import Folded
from toolyard.workspace.snapshots.ignoring import DEFAULT_RULES, IGNORE_FILE
from toolyard.workspace.snapshots.objects import Entry, Kind
from toolyard.workspace.snapshots.rebuilding import Rebuilt
from toolyard.workspace.snapshots.records import Counts, Damaged, Note, Snapshot, Taken, Work
from toolyard.workspace.snapshots.restoring import Restored
from toolyard.workspace.snapshots.store import LATEST, SnapshotStore, StoreOptions
from toolyard.workspace.snapshots.verifying import Harm, Verified

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
