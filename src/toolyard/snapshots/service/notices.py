"""Messages about snapshots for the audit log and the next tool result, each reported once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.snapshots.service.errors import failure_reason, unaccepted_rules_line
from toolyard.snapshots.service.size_limit import WorkspaceTooLarge

if TYPE_CHECKING:
    from toolyard.snapshots import SnapshotResult

_MOST = 5


class Notices:
    """Collects messages about snapshots: each goes to the audit log at once and to the next tool result."""

    def __init__(self, log: Callable[[str], None], subject: str = "") -> None:
        """`log` writes a sentence to the audit log. `subject` names the folder, if it is not the workspace."""
        self._log = log
        self._subject = subject
        self._waiting: deque[str] = deque(maxlen=_MOST)
        self._has_failed = False
        self._announced = ""
        self._announced_sessions: set[str] = set()
        self._proposals: frozenset[bytes] = frozenset()

    def pop_all(self) -> list[str]:
        """Returns the pending messages for the next tool result, and clears them."""
        messages: list[str] = []
        while self._waiting:
            messages.append(self._waiting.popleft())
        return messages

    def report_failure(self, error: Exception) -> None:
        """Reports that a snapshot could not be taken. Of several failures in a row only the first is reported."""
        if self._has_failed:
            return
        self._has_failed = True
        if isinstance(error, WorkspaceTooLarge):
            self._add(f"No automatic snapshots{self._subject} are taken: {error.message}.")
        else:
            self._add(
                f"No snapshot{self._subject} could be taken, so changes cannot be undone: {failure_reason(error)}"
            )

    def clear_failure(self) -> None:
        """Resets the state after a successful snapshot, so that the next failure is reported again."""
        self._has_failed = False
        self._announced = ""

    def announce_once(self, why: str, session: str) -> bool:
        """Returns whether a session must still be warned of this reason before a command: True once per session."""
        if why != self._announced:
            self._announced = why
            self._announced_sessions.clear()
        is_new = session not in self._announced_sessions
        self._announced_sessions.add(session)
        return is_new

    def report_unaccepted_rules(self, taken: SnapshotResult) -> None:
        """Reports ignore files that have no effect, if they were not reported before."""
        if new := sorted(frozenset(taken.proposals) - self._proposals):
            self._add(unaccepted_rules_line(new))
        self._proposals = frozenset(taken.proposals)

    def _add(self, message: str) -> None:
        self._waiting.append(f"[{message}]")
        self._log(message)
