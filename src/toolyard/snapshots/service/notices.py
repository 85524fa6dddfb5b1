"""What has to be said about snapshots, and what was said already."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolyard.snapshots.service.errors import proposals_line, reason_of
from toolyard.snapshots.service.size_limit import TooLarge

if TYPE_CHECKING:
    from toolyard.snapshots import Taken

_MOST = 5


class Notices:
    """Each goes into the audit log at once, and waits for the next result."""

    def __init__(self, tell: Callable[[str], None], of: str = "") -> None:
        """`tell` puts a sentence into the audit log. `of` says whose snapshots, where not the workspace's."""
        self._tell = tell
        self._of = of
        self._waiting: deque[str] = deque(maxlen=_MOST)
        self._has_failed = False
        self._announced = ""
        self._heard: set[str] = set()
        self._proposals: frozenset[bytes] = frozenset()

    def pop_all(self) -> list[str]:
        """What the next result has to say, once."""
        said: list[str] = []
        while self._waiting:
            said.append(self._waiting.popleft())
        return said

    def failed(self, error: Exception) -> None:
        """A snapshot could not be taken. Of several failures in a row only the first is news."""
        if self._has_failed:
            return
        self._has_failed = True
        if isinstance(error, TooLarge):
            self._add(f"No snapshots{self._of} are taken by themselves: {error.message}.")
        else:
            self._add(f"No snapshot{self._of} could be taken, so changes cannot be undone: {reason_of(error)}")

    def succeeded(self) -> None:
        self._has_failed = False
        self._announced = ""

    def announce(self, why: str, session: str) -> bool:
        """Whether a session has yet to hear, before a command, that this prevents snapshots. True once for each."""
        if why != self._announced:
            self._announced = why
            self._heard.clear()
        is_new = session not in self._heard
        self._heard.add(session)
        return is_new

    def taken(self, taken: Taken) -> None:
        """Say which ignore files have no effect, when that is news."""
        if new := sorted(frozenset(taken.proposals) - self._proposals):
            self._add(proposals_line(new))
        self._proposals = frozenset(taken.proposals)

    def _add(self, said: str) -> None:
        self._waiting.append(f"[{said}]")
        self._tell(said)
