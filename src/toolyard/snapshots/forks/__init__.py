"""Forks of a snapshot: a folder of one's own in a few milliseconds, whatever its size. See forks.py."""

from __future__ import annotations

from toolyard.snapshots.forks.changes import ForkChange
from toolyard.snapshots.forks.forks import Fork, ForkKind, Forks

__all__ = ["Fork", "ForkChange", "ForkKind", "Forks"]
