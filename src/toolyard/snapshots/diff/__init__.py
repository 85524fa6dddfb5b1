"""Compares snapshots with each other or with the live folder."""
