"""Messages and errors about snapshots: for the audit log, the next tool result, or the caller of a blocked change."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.files.os_errors import printable_name
from toolyard.snapshots.service.size_limits import WorkspaceTooLarge

if TYPE_CHECKING:
    from toolyard.snapshots import SnapshotResult

_MOST = 5
_NAMED = 3


class Notices:
    """Collects messages about snapshots: each goes to the audit log at once and to the next tool result."""

    def __init__(self, log: Callable[[str], None], subject: str = "") -> None:
        """`log` writes a sentence to the audit log. `subject` names the folder, if it is not the workspace."""
        self._log = log
        self._subject = subject
        self.waiting: deque[str] = deque(maxlen=_MOST)
        """Messages for the next tool result."""
        self._has_failed = False
        self._announced = ""
        self._announced_sessions: set[str] = set()
        self._proposals: frozenset[bytes] = frozenset()

    def pop_all(self) -> list[str]:
        """Returns the pending messages for the next tool result, and clears them."""
        messages: list[str] = []
        while self.waiting:
            messages.append(self.waiting.popleft())
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
        self.waiting.append(f"[{message}]")
        self._log(message)


def store_error_types() -> tuple[type[Exception], ...]:
    """Returns the exception types that a store may raise.

    A function, so that starting a server does not import sqlite3.
    """
    import sqlite3

    return ToolyardError, OSError, sqlite3.Error


def open_fault(folder: str, error: Exception) -> SystemFault:
    """Builds the error for a store that cannot be opened."""
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        hint = "Make the folder writable, or choose another one with --state or `orchestrator.snapshot_storage`."
    else:
        why, hint = str(error), "Rebuild the index from the packs: `toolyard snapshot verify --rebuild`."
    return SystemFault(f"The snapshots in {folder} cannot be opened: {why}.", hint=hint)


def failure_reason(error: Exception) -> str:
    """Returns why a snapshot could not be taken."""
    error = fd_exhaustion_fault(error) or error
    return error.message if isinstance(error, ToolyardError) else str(error)


def snapshot_required_fault(error: Exception) -> SystemFault:
    """Builds the error for a change that is blocked because a snapshot is required and could not be taken."""
    way = error.hint if isinstance(error, ToolyardError) and error.hint else "Fix the cause, then try again."
    return SystemFault(
        f"Nothing was changed: `snapshots.required` is set, and no snapshot could be taken: {failure_reason(error)}",
        hint=way,
    )


def unaccepted_rules_line(folders: Sequence[bytes]) -> str:
    """Says that ignore files have no effect until the user accepts them, and how to accept them."""
    from toolyard.files.root_folder import join_path  # lazy: needed only with the first snapshot
    from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE

    names = [printable_name(os.fsdecode(join_path(folder, os.fsencode(IGNORE_FILE)))) for folder in folders]
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return (
        f"The rules in {some} have no effect on snapshots until the user accepts them:"
        " `toolyard snapshot ignore` lists such files, `--accept PATH` accepts one."
    )
