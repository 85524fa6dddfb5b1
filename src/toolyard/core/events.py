"""One line of the audit log: what was touched and how it ended, never content, arguments or secrets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TARGET_CHARS = 500


class Outcome(StrEnum):
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
    outcome: Outcome
    code: int
    milliseconds: float
