"""Timestamps in the files of a workspace."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_timestamp() -> str:
    """Returns the current time in UTC, to the second: `2026-01-31T10:00:00+00:00`."""
    return datetime.now(UTC).isoformat(timespec="seconds")
