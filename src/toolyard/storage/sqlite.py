"""Helpers for SQLite databases that several connections and processes use at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time

_PAUSE_SECONDS = 0.005
_KIND = 0xFF
"""Mask for the primary error code; the higher bits are the extended code."""


def create_private_file(path: str) -> None:
    """Creates an empty database file at `path`, private to its owner, if there is none.

    SQLite gives the files beside it the same mode. An existing file is never opened: closing it would release the
    locks that SQLite holds on it for this process, and another process could then delete the log in use. For the same
    reason a new file gets its name only after it is closed. Raises OSError.
    """
    if os.path.lexists(path):
        return
    fd, draft = tempfile.mkstemp(prefix=".toolyard-", dir=os.path.dirname(path))
    os.close(fd)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def enable_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Switches a connection to a write-ahead log; waits up to `seconds` for other connections. Raises sqlite3.Error.

    SQLite's own busy timeout does not apply here: while another connection is the first to open or the last to close,
    it fails at once.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _KIND != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
