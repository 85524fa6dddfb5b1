"""Agents see each other's work: publishing snapshots, reading them, merging. See docs/sharing.md."""
