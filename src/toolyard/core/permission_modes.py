"""The six permission modes, by the names every backend and surface uses."""

from __future__ import annotations

from enum import StrEnum


class PermissionMode(StrEnum):
    STRICT = "strict"
    PLAN = "plan"
    ACCEPT_EDITS = "acceptEdits"
    MODERATE = "moderate"
    DEFAULT = "default"
    BYPASS = "bypassPermissions"


class Access(StrEnum):
    """What a context path may be used for."""

    READ = "read"
    WRITE = "write"
