"""The six permission modes, by the names that every backend and transport uses."""

from __future__ import annotations

from enum import StrEnum


class PermissionMode(StrEnum):
    """How much an agent may do without approval."""

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
