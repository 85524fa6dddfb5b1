"""The time as the files of a workspace have it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_timestamp() -> str:
    """To the second, in universal time: `2026-01-31T10:00:00+00:00`."""
    return datetime.now(UTC).isoformat(timespec="seconds")
