"""Putting one event for each call into the audit log, and stopping the yard when that fails.

Nothing runs unrecorded. An event that could not be written is kept here; until it is in the log, `catch_up` refuses
every further call before it runs. What refused calls would have recorded is kept too, up to a bound: they did
nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from toolyard.core.errors import ToolyardError
from toolyard.core.events import Event

_MOST_REFUSED = 1_000


class EventLog(Protocol):
    """Where events go: `storage.AuditLog`, or a test's own."""

    def append(self, event: Event) -> int: ...


class Recorder:
    """Used from one thread, the event loop's."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._owed: deque[Event] = deque()

    def catch_up(self) -> None:
        """Write what is owed. Raises the log's own error while it still cannot be written."""
        while self._owed:
            self._log.append(self._owed[0])
            self._owed.popleft()

    def record(self, event: Event, *, ran: bool) -> ToolyardError | None:
        """Write the event of a call; the log's error when it could not be written. `ran`: it may have done things."""
        kept = ran or len(self._owed) < _MOST_REFUSED
        if kept:
            self._owed.append(event)
        try:
            self.catch_up()
            if not kept:
                self._log.append(event)
        except ToolyardError as error:
            return error
        return None
