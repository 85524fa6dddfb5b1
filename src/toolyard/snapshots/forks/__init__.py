"""Forks of a snapshot: private writable copies in a few milliseconds, whatever the folder's size. See forks.py."""

from __future__ import annotations

from toolyard.snapshots.forks.changes import ForkChange
from toolyard.snapshots.forks.forks import Fork, ForkKind, Forks

__all__ = ["Fork", "ForkChange", "ForkKind", "Forks"]
