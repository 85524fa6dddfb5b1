"""Restores folders from snapshots."""
