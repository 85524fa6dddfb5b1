"""The SQLite database of threads: one connection, shared by all threads of the process under a lock.

It is opened on first use; reading does not create a missing file. After `close()` it cannot be opened again. All
errors, also damaged contents, are raised as SystemFault.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Callable, Generator

from toolyard.assistant.threads.codec import DamagedError
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full
from toolyard.storage.sqlite import create_private_file, enable_wal

_BUSY_SECONDS = 10.0
_VERSION = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS threads (
    id TEXT PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, expires REAL NOT NULL,
    turns INTEGER NOT NULL, about BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_update ON threads (updated);
CREATE INDEX IF NOT EXISTS by_expiry ON threads (expires);
CREATE TABLE IF NOT EXISTS turns (
    thread TEXT NOT NULL, number INTEGER NOT NULL, turn BLOB NOT NULL, UNIQUE (thread, number)
);
CREATE TABLE IF NOT EXISTS gone (id TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
"""


class ThreadDatabase(Closeable):
    """Owns the connection to the database."""

    def __init__(self, path: str, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """`prepare` is called once, in a transaction of its own, after opening."""
        self._path = path
        self._prepare = prepare
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    def close(self) -> None:
        with self._lock, self._translate_errors():
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextlib.contextmanager
    def read_transaction(self) -> Generator[sqlite3.Connection | None]:
        """Yields a consistent snapshot, whatever others write meanwhile; None if there is no database."""
        with self._lock, self._translate_errors():
            if self._connection is None and not os.path.exists(self._path):
                yield None
                return
            with self._transaction("BEGIN") as connection:
                yield connection

    @contextlib.contextmanager
    def write_transaction(self) -> Generator[sqlite3.Connection]:
        """Commits everything durably at the end of the block, or nothing."""
        with self._lock, self._translate_errors():
            create_private_file(self._path)
            with self._transaction("BEGIN IMMEDIATE") as connection:
                yield connection

    def purge(self) -> None:
        """Removes deleted content from the write-ahead log; if the log is in use, a later call does."""
        with self._lock, self._translate_errors():
            self._ensure_open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        connection = self._ensure_open()
        connection.execute(begin)
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def _ensure_open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise SystemFault("The threads are closed: this process is about to end.", retryable=True)
        if self._connection is None:
            self._connection = self._open()
            try:
                with self._transaction("BEGIN IMMEDIATE") as connection:
                    self._prepare(connection)
            except BaseException:
                self._connection.close()
                self._connection = None
                raise
        return self._connection

    def _open(self) -> sqlite3.Connection:
        # mode=rw: a file deleted in this moment is not created again with open permissions.
        uri = f"file:{urllib.parse.quote(self._path)}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            enable_wal(connection, _BUSY_SECONDS)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise SystemFault(
                    f"The threads in {self._path} were written by a newer Toolyard.",
                    hint="Use that version, or upgrade this one.",
                )
            if version < _VERSION:
                connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except DamagedError as error:
            raise self._damaged_error(str(error)) from error
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error):
                check_descriptors(error)
                if is_disk_full(error, self._path):
                    raise SystemFault(
                        f"The threads cannot be stored in {self._path}: the disk is full.",
                        hint=FREE_SPACE,
                        retryable=True,
                    ) from error
                if isinstance(error, sqlite3.DatabaseError) and _is_damage(error):
                    raise self._damaged_error(str(error)) from error
            raise SystemFault(
                f"The threads in {self._path} cannot be used: {error}.",
                hint="Check the file and its disk. Move it away to start with no threads.",
                retryable=isinstance(error, sqlite3.OperationalError),
            ) from error

    def _damaged_error(self, why: str) -> SystemFault:
        hint = "Move it and its -wal and -shm files away to start empty; `sqlite3 FILE .recover` may save some."
        return SystemFault(f"The threads in {self._path} are damaged: {why}.", hint=hint)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
