"""Entries of the audit log: the target and outcome of each call, never content, arguments or secrets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_TARGET_CHARS = 500


class CallOutcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    DENIED = "denied"
    ASKED = "asked"
    INVALID = "invalid"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit log."""

    call: str
    surface: str
    agent: str
    session: str
    tool: str
    kind: str
    target: str
    decision: str
    reason: str
    outcome: CallOutcome
    code: int
    milliseconds: float
