"""One line of the audit log: what was touched and how it ended, never content, arguments or secrets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_TARGET_CHARS = 500


class CallOutcome(StrEnum):
    OK = "ok"
    DENIED = "denied"
    ASKED = "asked"
    INVALID = "invalid"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Event:
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
