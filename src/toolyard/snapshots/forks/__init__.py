"""Forks of a snapshot: a folder of one's own in a few milliseconds, whatever its size. See forks.py."""

from __future__ import annotations

from toolyard.snapshots.forks.changes import Changed
from toolyard.snapshots.forks.forks import Fork, Forks, How

__all__ = ["Changed", "Fork", "Forks", "How"]
