"""Stores threads in SQLite: `<state folder>/threads.sqlite3`, with `threads.lock` beside it to lock single threads.

A turn is on disk before `keep` returns: neither a killed process nor a power failure loses it. The text of expired
threads is deleted when the database is opened, and then at most hourly when a turn is stored.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator

from toolyard.assistant.threads.codec import decode_summary, decode_turn, encode_summary, encode_turn
from toolyard.assistant.threads.database import ThreadDatabase
from toolyard.assistant.threads.file_lock import ThreadFileLock
from toolyard.assistant.threads.search import search_threads
from toolyard.assistant.threads.store import (
    DEFAULT_LIST_LIMIT,
    OPEN_TURN_GRACE_SECONDS,
    TOMBSTONE_SECONDS,
    ExpiredThread,
    OpenTurn,
    ThreadLimits,
    UnknownThread,
    new_thread,
    require_id,
)
from toolyard.assistant.threads.thread import Thread, ThreadHit, ThreadSummary, Turn
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault

FILE = "threads.sqlite3"
LOCK_FILE = "threads.lock"
_SWEEP_SECONDS = 3_600.0


class SqliteThreads(Closeable):
    """A ThreadStore in SQLite."""

    def __init__(self, folder: str, limits: ThreadLimits, clock: Callable[[], float] = time.time) -> None:
        self._limits = limits
        self._clock = clock
        self._database = ThreadDatabase(os.path.join(folder, FILE), self._sweep)
        self._lock = ThreadFileLock(os.path.join(folder, LOCK_FILE))
        self._swept_at = clock()

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def turn(self, thread: str | None, check_can_wait: Callable[[], None]) -> Generator[OpenTurn]:
        with contextlib.ExitStack() as stack:
            if thread is None:
                found = new_thread(self._clock())  # no other client knows its id yet
            else:
                self._require_thread(thread)
                stack.enter_context(self._lock.acquire(thread, check_can_wait))
                found = self.read(thread)
            opened = OpenTurn(found, self._limits, self._keep)
            stack.callback(opened.end)
            yield opened

    def _keep(self, thread: Thread, turn: Turn) -> Thread:
        data = encode_turn(turn)
        with self._database.write_transaction() as connection:
            now = self._clock()
            updated_thread = thread.with_turn(turn, now)
            about, expires = encode_summary(updated_thread.summary), now + self._limits.seconds
            if not thread.turns:
                connection.execute(
                    "INSERT INTO threads VALUES (?, ?, ?, ?, 1, ?)", (thread.id, thread.created, now, expires, about)
                )
            else:
                changed = connection.execute(
                    "UPDATE threads SET updated = ?, expires = ?, turns = ?, about = ? WHERE id = ?",
                    (now, expires, len(updated_thread.turns), about, thread.id),
                )
                if changed.rowcount == 0:
                    raise _missing_thread_error(connection, thread.id)
            connection.execute("INSERT INTO turns VALUES (?, ?, ?)", (thread.id, len(updated_thread.turns), data))
        if now - self._swept_at > _SWEEP_SECONDS:
            # The turn is stored; if sweeping fails, a later call sweeps.
            with contextlib.suppress(SystemFault), self._database.write_transaction() as connection:
                self._sweep(connection)
        return updated_thread

    def read(self, thread: str) -> Thread:
        with self._database.read_transaction() as connection:
            created, updated = self._times(connection, thread)
            query = "SELECT turn FROM turns WHERE thread = ? ORDER BY number"
            rows = connection.execute(query, (thread,)) if connection is not None else ()
            return Thread(thread, created, updated, tuple(decode_turn(row[0]) for row in rows))

    def ids_with_prefix(self, prefix: str) -> tuple[str, ...]:
        with self._database.read_transaction() as connection:
            if connection is None:
                return ()
            query = "SELECT id FROM threads WHERE substr(id, 1, ?) = ? AND expires > ? ORDER BY id"
            return tuple(row[0] for row in connection.execute(query, (len(prefix), prefix, self._clock())))

    def list(self, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadSummary, ...]:
        with self._database.read_transaction() as connection:
            if connection is None:
                return ()
            query = """
                SELECT id, created, updated, turns, about FROM threads WHERE expires > ?
                ORDER BY updated DESC LIMIT ?
            """
            return tuple(
                decode_summary(about, thread=thread, created=created, updated=updated, turns=turns)
                for thread, created, updated, turns, about in connection.execute(query, (self._clock(), most))
            )

    def search(self, words: str, most: int = DEFAULT_LIST_LIMIT) -> tuple[ThreadHit, ...]:
        return search_threads(self, words, most)

    def delete(self, thread: str) -> bool:
        try:
            self._require_thread(thread)
        except (UnknownThread, ExpiredThread):
            return False
        with self._database.write_transaction() as connection:
            connection.execute("DELETE FROM turns WHERE thread = ?", (thread,))
            was_there = connection.execute("DELETE FROM threads WHERE id = ?", (thread,)).rowcount > 0
        self._database.purge()
        return was_there

    def _require_thread(self, thread: str) -> None:
        """Raises UnknownThread or ExpiredThread."""
        with self._database.read_transaction() as connection:
            self._times(connection, thread)

    def _times(self, connection: sqlite3.Connection | None, thread: str) -> tuple[float, float]:
        """Returns the times of creation and last change. Raises UnknownThread or ExpiredThread."""
        require_id(thread)
        if connection is None:
            raise UnknownThread(thread)
        query = "SELECT created, updated, expires FROM threads WHERE id = ?"
        row: tuple[float, float, float] | None = connection.execute(query, (thread,)).fetchone()
        if row is None:
            raise _missing_thread_error(connection, thread)
        created, updated, expires = row
        if expires <= self._clock():
            raise ExpiredThread(thread)
        return created, updated

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Deletes the text of expired threads, and records their ids."""
        now = self._swept_at = self._clock()
        over = now - OPEN_TURN_GRACE_SECONDS
        marked = "INSERT OR REPLACE INTO gone SELECT id, expires + ? FROM threads WHERE expires < ?"
        if connection.execute(marked, (TOMBSTONE_SECONDS, over)).rowcount > 0:
            connection.execute(
                "DELETE FROM turns WHERE thread IN (SELECT id FROM threads WHERE expires < ?)", (over,)
            )
            connection.execute("DELETE FROM threads WHERE expires < ?", (over,))
        connection.execute("DELETE FROM gone WHERE until < ?", (now,))


def _missing_thread_error(connection: sqlite3.Connection, thread: str) -> UnknownThread | ExpiredThread:
    """Returns the error for a thread that is not in the database."""
    was_there = connection.execute("SELECT 1 FROM gone WHERE id = ?", (thread,)).fetchone() is not None
    return ExpiredThread(thread) if was_there else UnknownThread(thread)
