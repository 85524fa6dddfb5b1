"""Writes one event per call to the audit log, and blocks further calls when that fails.

No call runs without a record. An event that could not be written is kept here; until it is in the log,
`write_pending` refuses every further call before it runs. The events of refused calls are kept too, up to a limit:
those calls did nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from toolyard.core.actions import Effect, Kind
from toolyard.core.errors import SecurityError, SystemFault, ToolyardError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.ids import new_id

_MOST_REFUSED = 1_000


class EventLog(Protocol):
    """Where events go: `storage.AuditLog`, or a test's own log."""

    def append(self, event: Event) -> int: ...


class AuditRecorder:
    """Records the events of calls. Used only from the event loop's thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._pending: deque[Event] = deque()

    def write_pending(self) -> None:
        """Writes the pending events. Raises the log's error if it still cannot be written."""
        while self._pending:
            self._log.append(self._pending[0])
            self._pending.popleft()

    def record(self, event: Event, *, ran: bool) -> ToolyardError | None:
        """Writes the event of a call; returns the log's error if that fails. `ran`: it may have had effects."""
        is_queued = ran or len(self._pending) < _MOST_REFUSED
        if is_queued:
            self._pending.append(event)
        try:
            self.write_pending()
            if not is_queued:
                self._log.append(event)
        except ToolyardError as error:
            return error
        return None


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
