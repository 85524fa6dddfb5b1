"""Records the origin of merged files: which agent merged what, from which peer's snapshot. SQLite.

One file for all agents of a layout, in the state folder: `<state>/sharing/provenance.sqlite3`. It also helps to find
the common ancestor of two versions: both sides hold what was once merged. A `Provenance` owns its connection until
`close()` and may be used by several threads.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full
from toolyard.storage.sqlite import create_private_file, enable_wal
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.workspace.layout import SHARING

_FILE = "provenance.sqlite3"
_BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS origins (
    number INTEGER PRIMARY KEY, agent TEXT NOT NULL, path BLOB NOT NULL, peer TEXT NOT NULL,
    peer_path BLOB NOT NULL, snapshot TEXT NOT NULL, digest BLOB NOT NULL, outcome TEXT NOT NULL,
    time_ns INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_path ON origins (agent, path);
CREATE TABLE IF NOT EXISTS looked (
    agent TEXT NOT NULL, peer TEXT NOT NULL, snapshot TEXT NOT NULL, PRIMARY KEY (agent, peer)
) WITHOUT ROWID;
"""
_CANNOT_RECORD, _DISK_FULL = "The origin of merged files cannot be recorded in", "the disk is full"
_MERGE_STAYS = "What was merged stays merged."
_COLUMNS = "agent, path, peer, peer_path, snapshot, digest, outcome, time_ns"


@dataclass(frozen=True, slots=True)
class MergeOrigin:
    """One merge of one file: `agent` took the content of `peer`."""

    agent: str
    path: bytes
    peer: str
    peer_path: bytes
    snapshot: str
    digest: bytes
    """Digest of the peer's content in the snapshot store."""
    outcome: str
    time_ns: int = 0


class Provenance(Closeable):
    """The records of all merges."""

    def __init__(self, state: str) -> None:
        folder = ensure_state_dir(os.path.join(state, SHARING))
        self._path = path = os.path.join(folder, _FILE)
        self._lock = threading.Lock()
        with self._translate_errors():
            create_private_file(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                enable_wal(self._db, _BUSY_SECONDS)
                self._db.executescript(_SCHEMA)
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Raises errors of SQLite and the disk as SystemFault."""
        try:
            yield
        except sqlite3.Error as error:
            check_descriptors(error)
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise SystemFault(f"{self._path} is in use.", hint="Try again.", retryable=True) from error
            why, hint = (
                (_DISK_FULL, FREE_SPACE) if is_disk_full(error, self._path) else (str(error), "Move the file away.")
            )
            raise SystemFault(f"{_CANNOT_RECORD} {self._path}: {why}. {_MERGE_STAYS}", hint=hint) from error
        except OSError as error:
            hint = "Free some space, or check the folder's permissions."
            raise SystemFault(
                f"{_CANNOT_RECORD} {self._path}: {error.strerror}. {_MERGE_STAYS}", hint=hint
            ) from error

    def record(self, origins: Iterable[MergeOrigin]) -> None:
        """Records all of the merges, or none."""
        now = time.time_ns()
        rows = [
            (one.agent, one.path, one.peer, one.peer_path, one.snapshot, one.digest, one.outcome, one.time_ns or now)
            for one in origins
        ]
        with self._lock, self._translate_errors(), self._db:  # commits, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(f"INSERT INTO origins ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)", rows)  # noqa: S608

    def origins_of(self, agent: str, path: bytes | None = None, peer: str | None = None) -> list[MergeOrigin]:
        """Returns the merges of `agent`, the newest first, optionally only of one path or peer."""
        statement = f"SELECT {_COLUMNS} FROM origins WHERE agent = ?"  # noqa: S608 - constants
        parameters: list[str | bytes] = [agent]
        if path is not None:
            statement += " AND path = ?"
            parameters.append(path)
        if peer is not None:
            statement += " AND peer = ?"
            parameters.append(peer)
        with self._lock, self._translate_errors():
            rows = self._db.execute(f"{statement} ORDER BY number DESC", parameters).fetchall()
        return [MergeOrigin(*row) for row in rows]

    def last_seen_snapshot(self, agent: str, peer: str) -> str:
        """Returns the snapshot of `peer` that `agent` last looked at, or an empty string."""
        with self._lock, self._translate_errors():
            row = self._db.execute(
                "SELECT snapshot FROM looked WHERE agent = ? AND peer = ?", (agent, peer)
            ).fetchone()
        return str(row[0]) if row else ""

    def record_seen_snapshot(self, agent: str, peer: str, snapshot: str) -> None:
        """Records that `agent` has looked at a snapshot of `peer`."""
        with self._lock, self._translate_errors():
            self._db.execute("INSERT OR REPLACE INTO looked VALUES (?, ?, ?)", (agent, peer, snapshot))
