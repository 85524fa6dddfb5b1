"""Sharing between agents: publishes snapshots, reads those of peers, merges them. See docs/sharing.md."""
