"""Files for SQLite databases that several connections and processes use at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time

_PAUSE_SECONDS = 0.005
_KIND = 0xFF
"""Of an error; what is above it says more."""


def create_private_file(path: str) -> None:
    """Make an empty file at `path`, for its owner alone, where there is none; SQLite gives those beside it its mode.

    A file that is there is never opened. To close it again would take back the locks that SQLite holds on it for
    this process, and another process could clear away the log that is in use. That is also why a new one is given
    its name when it is closed already. Raises OSError.
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
    """Have a connection use a write-ahead log, waiting `seconds` for others to let it. Raises sqlite3.Error.

    SQLite's own patience does not help here: while another connection is the first to come or the last to leave, it
    gives up at once.
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
