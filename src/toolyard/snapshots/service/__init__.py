"""Automatic snapshots of a workspace, and the history of them."""
