"""What has to be said about snapshots, and what was said already."""

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
    """Each goes into the audit log at once, and waits for the next result."""

    def __init__(self, log: Callable[[str], None], subject: str = "") -> None:
        """`log` puts a sentence into the audit log. `subject` says whose snapshots, where not the workspace's."""
        self._log = log
        self._subject = subject
        self._waiting: deque[str] = deque(maxlen=_MOST)
        self._has_failed = False
        self._announced = ""
        self._announced_sessions: set[str] = set()
        self._proposals: frozenset[bytes] = frozenset()

    def pop_all(self) -> list[str]:
        """What the next result has to say, once."""
        said: list[str] = []
        while self._waiting:
            said.append(self._waiting.popleft())
        return said

    def report_failure(self, error: Exception) -> None:
        """A snapshot could not be taken. Of several failures in a row only the first is news."""
        if self._has_failed:
            return
        self._has_failed = True
        if isinstance(error, WorkspaceTooLarge):
            self._add(f"No snapshots{self._subject} are taken by themselves: {error.message}.")
        else:
            self._add(
                f"No snapshot{self._subject} could be taken, so changes cannot be undone: {failure_reason(error)}"
            )

    def clear_failure(self) -> None:
        self._has_failed = False
        self._announced = ""

    def announce_once(self, why: str, session: str) -> bool:
        """Whether a session has yet to hear, before a command, that this prevents snapshots. True once for each."""
        if why != self._announced:
            self._announced = why
            self._announced_sessions.clear()
        is_new = session not in self._announced_sessions
        self._announced_sessions.add(session)
        return is_new

    def report_unaccepted_rules(self, taken: SnapshotResult) -> None:
        """Say which ignore files have no effect, when that is news."""
        if new := sorted(frozenset(taken.proposals) - self._proposals):
            self._add(unaccepted_rules_line(new))
        self._proposals = frozenset(taken.proposals)

    def _add(self, message: str) -> None:
        self._waiting.append(f"[{message}]")
        self._log(message)
