"""Threads in SQLite: `<state folder>/threads.sqlite3`, and `threads.lock` beside it for who may go on with which.

A turn is on the disk before `keep` returns: neither a killed process nor a power cut loses one that was told of. Text
that has expired is deleted when the database is opened, and then every hour in which something is kept.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator

from toolyard.assistant.threads.codec import summary_bytes, summary_of, turn_bytes, turn_of
from toolyard.assistant.threads.database import Database
from toolyard.assistant.threads.file_lock import Holds
from toolyard.assistant.threads.search import search_threads
from toolyard.assistant.threads.store import (
    LISTED,
    TOMBSTONE_SECONDS,
    UNDER_WAY_SECONDS,
    ExpiredThread,
    OpenTurn,
    Terms,
    UnknownThread,
    new_thread,
    require_id,
)
from toolyard.assistant.threads.thread import Hit, Summary, Thread, Turn
from toolyard.core.closeable import Closing
from toolyard.core.errors import SystemFault

FILE = "threads.sqlite3"
LOCK_FILE = "threads.lock"
_SWEEP_SECONDS = 3_600.0


class SqliteThreads(Closing):
    def __init__(self, folder: str, terms: Terms, clock: Callable[[], float] = time.time) -> None:
        self._terms = terms
        self._clock = clock
        self._database = Database(os.path.join(folder, FILE), self._sweep)
        self._holds = Holds(os.path.join(folder, LOCK_FILE))
        self._swept = clock()

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def turn(self, thread: str | None, may_wait: Callable[[], None]) -> Generator[OpenTurn]:
        with contextlib.ExitStack() as held:
            if thread is None:
                found = new_thread(self._clock())  # whose id nobody else knows yet
            else:
                self._require(thread)
                held.enter_context(self._holds.hold(thread, may_wait))
                found = self.read(thread)
            opened = OpenTurn(found, self._terms, self._keep)
            held.callback(opened.end)
            yield opened

    def _keep(self, thread: Thread, turn: Turn) -> Thread:
        data = turn_bytes(turn)
        with self._database.writing() as connection:
            now = self._clock()
            kept = thread.after(turn, now)
            about, expires = summary_bytes(kept.summary), now + self._terms.seconds
            if not thread.turns:
                connection.execute(
                    "INSERT INTO threads VALUES (?, ?, ?, ?, 1, ?)", (thread.id, thread.created, now, expires, about)
                )
            else:
                changed = connection.execute(
                    "UPDATE threads SET updated = ?, expires = ?, turns = ?, about = ? WHERE id = ?",
                    (now, expires, len(kept.turns), about, thread.id),
                )
                if changed.rowcount == 0:
                    raise _refusal(connection, thread.id)
            connection.execute("INSERT INTO turns VALUES (?, ?, ?)", (thread.id, len(kept.turns), data))
        if now - self._swept > _SWEEP_SECONDS:
            # What was asked for is done; where this fails, the next one sweeps.
            with contextlib.suppress(SystemFault), self._database.writing() as connection:
                self._sweep(connection)
        return kept

    def read(self, thread: str) -> Thread:
        with self._database.reading() as connection:
            created, updated = self._times(connection, thread)
            query = "SELECT turn FROM turns WHERE thread = ? ORDER BY number"
            rows = connection.execute(query, (thread,)) if connection is not None else ()
            return Thread(thread, created, updated, tuple(turn_of(row[0]) for row in rows))

    def starting(self, prefix: str) -> tuple[str, ...]:
        with self._database.reading() as connection:
            if connection is None:
                return ()
            query = "SELECT id FROM threads WHERE substr(id, 1, ?) = ? AND expires > ? ORDER BY id"
            return tuple(row[0] for row in connection.execute(query, (len(prefix), prefix, self._clock())))

    def list(self, most: int = LISTED) -> tuple[Summary, ...]:
        with self._database.reading() as connection:
            if connection is None:
                return ()
            query = """
                SELECT id, created, updated, turns, about FROM threads WHERE expires > ?
                ORDER BY updated DESC LIMIT ?
            """
            return tuple(
                summary_of(about, thread=thread, created=created, updated=updated, turns=turns)
                for thread, created, updated, turns, about in connection.execute(query, (self._clock(), most))
            )

    def search(self, words: str, most: int = LISTED) -> tuple[Hit, ...]:
        return search_threads(self, words, most)

    def delete(self, thread: str) -> bool:
        try:
            self._require(thread)
        except (UnknownThread, ExpiredThread):
            return False
        with self._database.writing() as connection:
            connection.execute("DELETE FROM turns WHERE thread = ?", (thread,))
            was_there = connection.execute("DELETE FROM threads WHERE id = ?", (thread,)).rowcount > 0
        self._database.purge()
        return was_there

    def _require(self, thread: str) -> None:
        """Raises UnknownThread or ExpiredThread."""
        with self._database.reading() as connection:
            self._times(connection, thread)

    def _times(self, connection: sqlite3.Connection | None, thread: str) -> tuple[float, float]:
        """When it was made and last changed. Raises UnknownThread or ExpiredThread."""
        require_id(thread)
        if connection is None:
            raise UnknownThread(thread)
        query = "SELECT created, updated, expires FROM threads WHERE id = ?"
        row: tuple[float, float, float] | None = connection.execute(query, (thread,)).fetchone()
        if row is None:
            raise _refusal(connection, thread)
        created, updated, expires = row
        if expires <= self._clock():
            raise ExpiredThread(thread)
        return created, updated

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Delete the text of what has expired, and keep its name."""
        now = self._swept = self._clock()
        over = now - UNDER_WAY_SECONDS
        marked = "INSERT OR REPLACE INTO gone SELECT id, expires + ? FROM threads WHERE expires < ?"
        if connection.execute(marked, (TOMBSTONE_SECONDS, over)).rowcount > 0:
            connection.execute(
                "DELETE FROM turns WHERE thread IN (SELECT id FROM threads WHERE expires < ?)", (over,)
            )
            connection.execute("DELETE FROM threads WHERE expires < ?", (over,))
        connection.execute("DELETE FROM gone WHERE until < ?", (now,))


def _refusal(connection: sqlite3.Connection, thread: str) -> UnknownThread | ExpiredThread:
    """Of one that is not there."""
    was_there = connection.execute("SELECT 1 FROM gone WHERE id = ?", (thread,)).fetchone() is not None
    return ExpiredThread(thread) if was_there else UnknownThread(thread)
