"""Records which agent changed which file in a shared folder, in `<state>/sharing/authors.sqlite3`.

Each call that may change files is recorded before it changes anything, and again when it ends. A file tool names its
paths. A command names none, since it may change any; where its sandbox records the changes of its processes, those
paths are added while it runs. The authors of a changed file are the agents whose calls named it or whose commands
changed it; without any, the only agent whose command was running. If several agents could have made the change, it
has no author, because one of them may hide what it does. A Python session can change files between its calls, so its
agent always counts as a possible author. A record that cannot be written loses the author of a change and never fails
the call.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toolyard.core.closeable import Closeable
from toolyard.core.limits import MIB
from toolyard.snapshots.service.format import without_implied_folders
from toolyard.storage.sqlite import create_private_file, enable_wal
from toolyard.storage.state_folder import ensure_state_dir

if TYPE_CHECKING:
    from toolyard.snapshots import Diff, PathChange

_FILE = "authors.sqlite3"
_BUSY_SECONDS = 2.0
_REMEMBERED_NS = 7 * 86_400 * 10**9
_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, root BLOB NOT NULL, agent TEXT NOT NULL, tool TEXT NOT NULL, path BLOB NOT NULL,
    process INTEGER NOT NULL, began_ns INTEGER NOT NULL, ended_ns INTEGER
);
CREATE INDEX IF NOT EXISTS by_end ON calls (root, ended_ns);
CREATE TABLE IF NOT EXISTS complete (call INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS changed (
    number INTEGER PRIMARY KEY, call INTEGER NOT NULL, path BLOB NOT NULL, is_tree INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, UNIQUE (call, path)
);
CREATE TABLE IF NOT EXISTS sessions (
    root BLOB NOT NULL, agent TEXT NOT NULL, process INTEGER NOT NULL, since_ns INTEGER NOT NULL,
    PRIMARY KEY (root, agent, process)
);
"""
_MOST_CHANGED, _MOST_BYTES = 1_000_000, 512 * MIB
"""Limits of the recorded paths of all commands, and of their bytes. A command whose paths were dropped counts as not
recorded.
"""
_MOST_LABELLED = 100_000
"""At most this many changes of a snapshot are searched for authors."""
_SINCE = (
    "SELECT agent, tool, path, began_ns, ended_ns, complete.call IS NOT NULL, number FROM calls "
    "LEFT JOIN complete ON complete.call = number WHERE root = ? AND (ended_ns IS NULL OR ended_ns >= ?)"
)
_CHANGE = (
    "INSERT INTO changed (call, path, is_tree, time_ns) VALUES (?, ?, ?, ?) ON CONFLICT (call, path) "
    "DO UPDATE SET is_tree = max(is_tree, excluded.is_tree), time_ns = max(time_ns, excluded.time_ns)"
)


class ChangingCall(NamedTuple):
    """One recorded call that may change files."""

    agent: str
    tool: str
    path: bytes
    """Relative to the folder; empty for a call that may change anything."""
    began_ns: int
    ended_ns: int | None
    is_complete: bool = False
    """Whether `changed` lists everything that a command changed."""
    number: int = 0
    changed: Mapping[bytes, tuple[bool, int]] = {}
    """The paths that a command changed: whether everything beneath is included, and the time of the last change."""

    def was_running_at(self, time_ns: int) -> bool:
        """Returns whether the call was running at that time."""
        return self.began_ns <= time_ns and (self.ended_ns is None or time_ns <= self.ended_ns)


class Authors(Closeable):
    """The record of changes. Owns its connection until `close()`; several threads may use it."""

    def __init__(self, folder: str) -> None:
        """Opens or creates the record in `folder`. Raises OSError and sqlite3.Error."""
        path = os.path.join(ensure_state_dir(folder), _FILE)
        create_private_file(path)
        self._using = threading.Lock()
        self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            enable_wal(self._db, _BUSY_SECONDS)
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
        """Records that a call is about to change `path` (empty: anything). Returns its number, 0 if that failed."""
        row = (os.fsencode(root), agent, tool, path, os.getpid(), time.time_ns())
        statement = "INSERT INTO calls (root, agent, tool, path, process, began_ns) VALUES (?, ?, ?, ?, ?, ?)"
        with self._using, contextlib.suppress(sqlite3.Error):
            return self._db.execute(statement, row).lastrowid or 0
        return 0

    def end(self, number: int) -> None:
        """Records that a call has ended."""
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute("UPDATE calls SET ended_ns = ? WHERE number = ?", (time.time_ns(), number))

    def add_changes(self, number: int, paths: Iterable[tuple[bytes, bool, int]]) -> None:
        """Records the changes of a command: paths in the folder, whether whole trees are meant, and when."""
        rows = [(number, *change) for change in paths]
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(_CHANGE, rows)
                self._drop_oldest_changes()
            finally:
                self._db.execute("COMMIT")

    def set_complete(self, number: int, *, is_complete: bool) -> None:
        """Records whether all changes of a command are recorded."""
        insert, delete = "INSERT OR IGNORE INTO complete VALUES (?)", "DELETE FROM complete WHERE call = ?"
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute(insert if is_complete else delete, (number,))

    def record_session(self, number: int) -> None:
        """Records that a call leaves a session running, which may change anything later."""
        statement = "INSERT OR IGNORE INTO sessions SELECT root, agent, process, began_ns FROM calls WHERE number = ?"
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute(statement, (number,))

    def end_sessions(self, root: str, agent: str) -> None:
        """Records that the agent has no more sessions in this process."""
        statement = "DELETE FROM sessions WHERE root = ? AND agent = ? AND process = ?"
        with self._using, contextlib.suppress(sqlite3.Error):
            self._db.execute(statement, (os.fsencode(root), agent, os.getpid()))

    def agents_with_sessions(self, root: str, until_ns: int) -> frozenset[str]:
        """Returns the agents with a session that started before `until_ns`."""
        statement = "SELECT agent, process FROM sessions WHERE root = ? AND since_ns <= ?"
        with self._using, contextlib.suppress(sqlite3.Error):
            found = self._db.execute(statement, (os.fsencode(root), until_ns)).fetchall()
            return frozenset(agent for agent, process in found if _is_running(process))
        return frozenset()

    def interval(self, root: str, since_ns: int, until_ns: int) -> Interval:
        """Returns who changed what in `root` between two snapshots."""
        return Interval(
            root, self.calls_since(root, since_ns), until_ns, since_ns, self.agents_with_sessions(root, until_ns)
        )

    def has_others(self, root: str, agent: str) -> bool:
        """Returns whether any other agent has worked in `root`."""
        statement = "SELECT 1 FROM calls WHERE root = ? AND agent <> ? LIMIT 1"
        with self._using, contextlib.suppress(sqlite3.Error):
            return self._db.execute(statement, (os.fsencode(root), agent)).fetchone() is not None
        return False

    def in_order(self, root: str, agents: Iterable[str]) -> list[str]:
        """Returns these agents in the order in which they began to work in `root`; unrecorded ones come last."""
        statement = "SELECT agent FROM calls WHERE root = ? GROUP BY agent ORDER BY min(number)"
        order: list[str] = []
        with self._using, contextlib.suppress(sqlite3.Error):
            order = [agent for (agent,) in self._db.execute(statement, (os.fsencode(root),))]
        return sorted(agents, key=lambda agent: (order.index(agent) if agent in order else len(order), agent))

    def calls_since(self, root: str, time_ns: int) -> list[ChangingCall]:
        """Returns the calls that had not ended by then."""
        with self._using, contextlib.suppress(sqlite3.Error):
            calls = [ChangingCall(*row) for row in self._db.execute(_SINCE, (os.fsencode(root), time_ns)).fetchall()]
            return [call if call.path else call._replace(changed=self._changed_paths(call.number)) for call in calls]
        return []

    def _changed_paths(self, number: int) -> dict[bytes, tuple[bool, int]]:
        rows = self._db.execute("SELECT path, is_tree, time_ns FROM changed WHERE call = ?", (number,))
        return {path: (bool(is_tree), time_ns) for path, is_tree, time_ns in rows}

    def _drop_oldest_changes(self) -> None:
        first, last = self._db.execute("SELECT min(number), max(number) FROM changed").fetchone()
        if last is None or (last - first < _MOST_CHANGED and self._used_bytes() < _MOST_BYTES):
            return
        dropped = "SELECT DISTINCT call FROM changed WHERE number <= ?"
        until = (max(last - _MOST_CHANGED // 2, (first + last) // 2),)
        self._db.execute(f"DELETE FROM complete WHERE call IN ({dropped})", until)  # noqa: S608 - a constant
        self._db.execute("DELETE FROM changed WHERE number <= ?", until)

    def _used_bytes(self) -> int:
        size, pages, free = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
        )
        return size * (pages - free)

    def _drop_old(self) -> None:
        self._db.execute("DELETE FROM calls WHERE ended_ns < ?", (time.time_ns() - _REMEMBERED_NS,))
        for table in ("complete", "changed"):
            self._db.execute(f"DELETE FROM {table} WHERE call NOT IN (SELECT number FROM calls)")  # noqa: S608
        running = "SELECT process FROM calls WHERE ended_ns IS NULL UNION SELECT process FROM sessions"
        for (process,) in self._db.execute(running).fetchall():
            if not _is_running(process):  # the process was killed: its calls ended with it
                self._db.execute("DELETE FROM sessions WHERE process = ?", (process,))
                self._db.execute(
                    "UPDATE calls SET ended_ns = began_ns WHERE process = ? AND ended_ns IS NULL", (process,)
                )


@contextlib.contextmanager
def open_recorded_authors(folder: str) -> Generator[Authors | None]:
    """Opens the record in `folder`; None if there is none or it cannot be read."""
    authors = None
    if os.path.exists(os.path.join(folder, _FILE)):
        with contextlib.suppress(OSError, sqlite3.Error):
            authors = Authors(folder)
    try:
        yield authors
    finally:
        if authors is not None:
            authors.close()


def has_recorded_others(folder: str, root: str, agent: str) -> bool:
    """Returns whether the record in `folder` shows that another agent has worked in `root`."""
    with open_recorded_authors(folder) as authors:
        return authors is not None and authors.has_others(root, agent)


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two snapshots of a folder, with the calls of that time."""

    root: str
    calls: Sequence[ChangingCall]
    until_ns: int
    since_ns: int = 0
    agents_with_sessions: frozenset[str] = frozenset()
    """Agents with Python sessions, which may change files at any time without a record."""

    def authors_of(self, path: bytes) -> set[str]:
        """Returns the agents whose calls changed `path`."""
        naming = [call for call in self.calls if call.path and _contains(call.path, path)]
        commands = [call for call in self.calls if not call.path]
        changing = self._agents_that_changed(path, commands)
        changed_ns = self._changed_ns(path)
        running = [call for call in commands if call.was_running_at(changed_ns)]
        if naming or changing:
            is_changed_since = all(call.ended_ns is not None and call.ended_ns < changed_ns for call in naming)
            is_later = not changing and is_changed_since and changed_ns <= self.until_ns
            later = self._only_agent(running) if is_later else set[str]()
            return later | changing | {call.agent for call in naming}
        if running:
            return self._only_agent(running, takes_recorded=True)
        began = [call for call in commands if call.began_ns <= self.until_ns]
        return self._only_agent(began, takes_recorded=True)

    def _only_agent(self, commands: Sequence[ChangingCall], *, takes_recorded: bool = False) -> set[str]:
        """Returns the agent of these commands, if no other agent could have made the change.

        A complete record of another agent's commands excludes nothing, because a program can hide what it changes.
        `takes_recorded`: accept the agent although its own record lacks the path, as after a change through a hard
        link.
        """
        agents = {call.agent for call in commands}
        is_known = not takes_recorded and all(call.is_complete for call in commands)
        return set() if is_known or len(agents | self.agents_with_sessions) > 1 else agents

    def _agents_that_changed(self, path: bytes, commands: Sequence[ChangingCall]) -> set[str]:
        """Returns the agents whose commands are recorded as having changed `path`.

        A record of the path itself counts before one of a parent folder, and a change within the interval before an
        earlier one, whose file may still be open. There is no author if another agent has changed it since.
        """
        found: dict[tuple[bool, bool], set[str]] = {}
        for call in commands:
            if path in call.changed:
                _, time_ns = call.changed[path]
                found.setdefault((True, self.since_ns <= time_ns <= self.until_ns), set()).add(call.agent)
            for above in _folders_around(path):
                is_tree, time_ns = call.changed.get(above, (False, 0))
                if is_tree:
                    found.setdefault((False, self.since_ns <= time_ns <= self.until_ns), set()).add(call.agent)
        order = ((True, True), (False, True), (True, False), (False, False))
        return next((found[rank] for rank in order if rank in found), set[str]())

    def _changed_ns(self, path: bytes) -> int:
        """Returns when the file last changed; 0 if it no longer exists."""
        try:
            return os.stat(os.path.join(os.fsencode(self.root), path), follow_symlinks=False).st_ctime_ns
        except OSError:
            return 0


def authors_of_any(changes: Iterable[PathChange], interval: Interval) -> set[str]:
    """Returns the agents that made any of these changes. An added or removed folder counts with its content."""
    at_work = {call.agent for call in interval.calls}
    authors: set[str] = set()
    for change in without_implied_folders(list(islice(changes, _MOST_LABELLED))) if at_work else ():
        authors |= interval.authors_of(change.path)
        if authors == at_work:
            break
    return authors


def changes_by_author(diff: Diff, interval: Interval) -> dict[str, Diff]:
    """Groups the changes by agent. A change without an author is in none of the groups."""
    changes: dict[str, list[PathChange]] = {}
    for change in diff.changes:
        for agent in interval.authors_of(change.path):
            changes.setdefault(agent, []).append(change)
    return {
        agent: replace(diff, changes=tuple(made), collapsed=(), total=len(made)) for agent, made in changes.items()
    }


def _folders_around(path: bytes) -> Iterator[bytes]:
    while path:
        path = path.rpartition(b"/")[0]
        yield path


def _contains(folder: bytes, path: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")


def _is_running(process: int) -> bool:
    return os.path.exists(f"/proc/{process}")
