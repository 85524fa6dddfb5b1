"""Entries of the audit log: the target and outcome of each call, never content, arguments or secrets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolyard.core.actions import Effect, Kind
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.ids import new_id

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


def own_event(agent: str, tool: str, workspace: str, what: str, outcome: CallOutcome) -> Event:
    """Builds an event for an action of Toolyard itself, or of the user by command."""
    return Event(
        call=new_id(),
        surface="toolyard",
        agent=agent,
        session="",
        tool=tool,
        kind="",
        target=workspace[:MAX_TARGET_CHARS],
        decision="",
        reason=what[:MAX_TARGET_CHARS],
        outcome=outcome,
        code=SystemFault.code if outcome is CallOutcome.FAILED else 0,
        milliseconds=0.0,
    )


def network_event(agent: str, address: str, *, is_allowed: bool) -> Event:
    """Builds an event for code in the sandbox that tried to reach a host."""
    return Event(
        call=new_id(),
        surface="sandbox",
        agent=agent,
        session="",
        tool="network",
        kind=Kind.EXECUTE.value,
        target=address,
        decision=(Effect.ALLOW if is_allowed else Effect.DENY).value,
        reason="It is in code_execution.allowed_hosts." if is_allowed else "It is not an allowed host.",
        outcome=CallOutcome.OK if is_allowed else CallOutcome.DENIED,
        code=0 if is_allowed else SecurityError.code,
        milliseconds=0.0,
    )
