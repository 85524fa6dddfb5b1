"""Whose call changed what, where several agents work in one folder. SQLite, `<state>/sharing/authors.sqlite3`.

Each call that may change files is recorded before it changes anything, and its end after that. A file tool names the
paths; a command names none: it may change any. A changed file belongs to the agents whose calls named it, and to the
one whose command was running when it changed, if that was after those calls or there were none. Where that was
nobody's, or where commands of several agents could have done it, the change has no author: no agent is said to have
made it. A record that cannot be written costs the author of a change, never the call.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from toolyard.core.closing import Closing
from toolyard.storage.databases import make_private, write_ahead
from toolyard.storage.state import ensure_state_dir

if TYPE_CHECKING:
    from toolyard.workspace.snapshots import Change, Diff

_FILE = "authors.sqlite3"
_BUSY_SECONDS = 2.0
_REMEMBERED_NS = 7 * 86_400 * 10**9
_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, root BLOB NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL, path BLOB NOT NULL,
    process INTEGER NOT NULL, began_ns INTEGER NOT NULL, ended_ns INTEGER
);
CREATE INDEX IF NOT EXISTS by_end ON calls (root, ended_ns);
"""
_SINCE = (
    "SELECT agent, tool, path, began_ns, ended_ns FROM calls WHERE root = ? AND (ended_ns IS NULL OR ended_ns >= ?)"
)


class ChangingCall(NamedTuple):
    agent: str
    tool: str
    path: bytes
    """In the folder; empty for a call that may change anything."""
    began_ns: int
    ended_ns: int | None

    def was_running_at(self, time_ns: int) -> bool:
        return self.began_ns <= time_ns and (self.ended_ns is None or time_ns <= self.ended_ns)


class Authors(Closing):
    """Owns its connection until `close()` and may be used by several threads."""

    def __init__(self, folder: str) -> None:
        """`folder` is where it lies. Raises OSError and sqlite3.Error."""
        path = os.path.join(ensure_state_dir(folder), _FILE)
        make_private(path)
        self._using = threading.Lock()
        self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            write_ahead(self._db, _BUSY_SECONDS)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            self._drop_old()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        with self._using:
            self._db.close()

    def begin(self, root: str, agent: str, tool: str, path: bytes) -> int:
        """Record that a call is about to change `path`; an empty one is anything. Its number, 0 where that failed."""
        row = (os.fsencode(root), agent, tool, path, os.getpid(), time.time_ns())
        statement = "INSERT INTO calls (root, agent, tool, path, process, began_ns) VALUES (?, ?, ?, ?, ?, ?)"
        with self._using, contextlib.suppress(sqlite3.Error):
            return self._db.execute(statement, row).lastrowid or 0
        return 0

    def end(self, number: int) -> None:
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute("UPDATE calls SET ended_ns = ? WHERE number = ?", (time.time_ns(), number))

    def has_others(self, root: str, agent: str) -> bool:
        """Whether any other agent has worked in `root`."""
        statement = "SELECT 1 FROM calls WHERE root = ? AND agent <> ? LIMIT 1"
        with self._using, contextlib.suppress(sqlite3.Error):
            return self._db.execute(statement, (os.fsencode(root), agent)).fetchone() is not None
        return False

    def since(self, root: str, time_ns: int) -> list[ChangingCall]:
        """Calls that had not ended by then."""
        with self._using, contextlib.suppress(sqlite3.Error):
            return [ChangingCall(*row) for row in self._db.execute(_SINCE, (os.fsencode(root), time_ns))]
        return []

    def _drop_old(self) -> None:
        self._db.execute("DELETE FROM calls WHERE ended_ns < ?", (time.time_ns() - _REMEMBERED_NS,))
        running = self._db.execute("SELECT DISTINCT process FROM calls WHERE ended_ns IS NULL").fetchall()
        for (process,) in running:
            if not os.path.exists(f"/proc/{process}"):  # killed: its calls ended with it
                self._db.execute(
                    "UPDATE calls SET ended_ns = began_ns WHERE process = ? AND ended_ns IS NULL", (process,)
                )


@contextlib.contextmanager
def recorded_authors(folder: str) -> Generator[Authors | None]:
    """What was recorded in `folder`; None where nothing was, or it cannot be read."""
    authors = None
    if os.path.exists(os.path.join(folder, _FILE)):
        with contextlib.suppress(OSError, sqlite3.Error):
            authors = Authors(folder)
    try:
        yield authors
    finally:
        if authors is not None:
            authors.close()


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two snapshots of a folder, with the calls of that time."""

    root: str
    calls: Sequence[ChangingCall]
    until_ns: int

    def authors_of(self, path: bytes) -> set[str]:
        """Whose calls changed `path`."""
        naming = [call for call in self.calls if call.path and _holds(call.path, path)]
        commands = [call for call in self.calls if not call.path]
        changed_ns = self._changed_ns(path)
        authors = {call.agent for call in commands if call.was_running_at(changed_ns)}
        if naming:
            is_changed_since = all(call.ended_ns is not None and call.ended_ns < changed_ns for call in naming)
            later = authors if is_changed_since and changed_ns <= self.until_ns and len(authors) == 1 else set[str]()
            return later | {call.agent for call in naming}
        authors = authors or {call.agent for call in commands if call.began_ns <= self.until_ns}
        return authors if len(authors) == 1 else set()

    def _changed_ns(self, path: bytes) -> int:
        """When the file last changed; 0 where it is gone."""
        try:
            return os.stat(os.path.join(os.fsencode(self.root), path), follow_symlinks=False).st_ctime_ns
        except OSError:
            return 0


def changes_by_author(found: Diff, interval: Interval) -> dict[str, Diff]:
    """The changes that each agent made. One without an author is in none of them."""
    changes: dict[str, list[Change]] = {}
    for change in found.changes:
        for agent in interval.authors_of(change.path):
            changes.setdefault(agent, []).append(change)
    return {agent: replace(found, changes=tuple(made), folded=(), total=len(made)) for agent, made in changes.items()}


def _holds(folder: bytes, path: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")
