"""Enforces memory, disk and process limits on sandboxed runs."""
