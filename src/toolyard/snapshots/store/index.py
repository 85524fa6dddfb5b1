"""The index: the offsets of objects, the snapshots, and the cached pages of folders (their stats when last read).

SQLite with a write-ahead log: readers never wait, and a transaction happens as a whole or not at all. Nothing is
committed before the bytes it names are on disk. An Index owns its connection until `close()` and is used by one
thread at a time; a writer's index is a separate connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.snapshots.store.models import Counts, PathNote, Snapshot
from toolyard.snapshots.store.packs import OffsetRow, PackOffset
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full
from toolyard.storage.sqlite import create_private_file, enable_wal

_VERSION = 2
_BUSY_MILLISECONDS = 30_000
_ASKED_AT_ONCE = 500
_ROWS_AT_ONCE = 50
"""Objects inserted by one statement: a statement costs more than a row."""
_SCHEMA = """
CREATE TABLE packs (pack INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL);
CREATE TABLE objects (
    digest BLOB PRIMARY KEY, pack INTEGER NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE snapshots (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root BLOB NOT NULL, time_ns INTEGER NOT NULL,
    agent TEXT NOT NULL, reason TEXT NOT NULL, parent TEXT, tree BLOB NOT NULL, mode INTEGER NOT NULL,
    files INTEGER NOT NULL, folders INTEGER NOT NULL, links INTEGER NOT NULL, skipped INTEGER NOT NULL,
    torn INTEGER NOT NULL, size INTEGER NOT NULL, notes TEXT NOT NULL, record BLOB
);
CREATE TABLE seen (
    place BLOB PRIMARY KEY, looks BLOB NOT NULL, below BLOB NOT NULL, page BLOB NOT NULL,
    files INTEGER NOT NULL, links INTEGER NOT NULL, size INTEGER NOT NULL
);
"""
_UPGRADES = {1: "ALTER TABLE snapshots ADD COLUMN record BLOB"}
"""By version: the statement that upgrades an index to the next version."""
_REBUILD = "If its disk works, `toolyard snapshot verify --rebuild` rebuilds it from the packs."
_COLUMNS = "number, id, root, time_ns, agent, reason, parent, tree, mode, files, folders, links, skipped, torn, size"


class CachedPage(NamedTuple):
    """A page of a folder as last seen: the stats of its entries, the digests of its subfolders, and its object."""

    stats: bytes
    folder_digests: bytes
    page: bytes
    files: int
    links: int
    size: int


@contextlib.contextmanager
def translate_sqlite_errors(path: str) -> Generator[None]:
    """Turns SQLite errors of the index at `path` into SystemFault."""
    try:
        yield
    except sqlite3.Error as error:
        check_descriptors(error)
        if is_disk_full(error, path):
            raise SystemFault("The disk is full; the snapshots taken so far are intact.", hint=FREE_SPACE) from error
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise SystemFault(f"The snapshot index {path} is in use.", hint="Try again.", retryable=True) from error
        raise SystemFault(f"The snapshot index {path} cannot be used: {error}.", hint=_REBUILD) from error


class Index(Closeable):
    """The SQLite index of a store."""

    def __init__(self, path: str) -> None:
        """Opens the index at `path`, and creates it if it is missing."""
        self.path = path
        create_private_file(path)
        with translate_sqlite_errors(path):
            # The owner makes sure that only one thread uses it at a time.
            self._db = sqlite3.connect(
                path, timeout=_BUSY_MILLISECONDS / 1e3, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        enable_wal(self._db, _BUSY_MILLISECONDS / 1e3)
        if self._version() == 0:
            with self.transaction():
                if self._version() == 0:  # no other process created it first
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {_VERSION}")
        while (version := self._version()) in _UPGRADES:
            with self.transaction():
                if self._version() == version:
                    self._db.execute(_UPGRADES[version])
                    self._db.execute(f"PRAGMA user_version = {version + 1}")
        if self._version() != _VERSION:
            raise SystemFault(
                "The snapshots were written by another version of Toolyard.", hint="Use that version, or a newer one."
            )

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def read_transaction(self) -> Generator[None]:
        """Runs many queries on one state: together they cost a fraction of single ones."""
        with translate_sqlite_errors(self.path):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    @contextlib.contextmanager
    def transaction(self, *, synced: bool = True) -> Generator[None]:
        """Commits everything inside together, or nothing.

        Without `synced` a killed process loses nothing either, but a power failure may.
        """
        with translate_sqlite_errors(self.path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # some faults have rolled it back already
                    self._db.execute("ROLLBACK")
                raise

    def commit_noop(self) -> None:
        """Makes a commit that changes nothing, so that later commits follow the state that this connection sees."""
        with self.transaction():
            self._db.execute(f"PRAGMA user_version = {_VERSION}")

    # Objects and packs

    def find_offsets(self, digests: Sequence[bytes]) -> dict[bytes, PackOffset]:
        """Returns the offsets of those objects that are stored."""
        found: dict[bytes, PackOffset] = {}
        with translate_sqlite_errors(self.path):
            for start in range(0, len(digests), _ASKED_AT_ONCE):
                asked = digests[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(asked))
                rows = self._db.execute(
                    f"SELECT digest, pack, at, size FROM objects WHERE digest IN ({marks})",  # noqa: S608 - marks
                    asked,
                )
                for digest, pack, at, size in rows:
                    found[digest] = PackOffset(pack, at, size)
        return found

    def is_empty(self) -> bool:
        return self._fetch_one("SELECT 1 FROM objects LIMIT 1") is None

    def objects(self, pack: int | None = None) -> Iterator[tuple[bytes, int, int, int]]:
        """Yields every object with its offset, pack by pack."""
        for pack_number in [pack] if pack is not None else sorted(self.packs()):
            with translate_sqlite_errors(self.path):
                # Sorted by SQLite, which releases the GIL.
                yield from self._db.execute(
                    "SELECT digest, pack, at, size FROM objects WHERE pack = ? ORDER BY at", (pack_number,)
                ).fetchall()

    def packs(self) -> dict[int, int]:
        """Returns the valid size of each pack."""
        with translate_sqlite_errors(self.path):
            return dict(self._db.execute("SELECT pack, size FROM packs"))

    def next_pack(self) -> int:
        """Returns a number that no pack has had. `set_pack` reserves it."""
        row = self._fetch_one("SELECT seq FROM sqlite_sequence WHERE name = 'packs'")
        return row[0] + 1 if row else 1

    def set_pack(self, pack: int, size: int) -> None:
        """Sets the valid size of a pack."""
        self._db.execute("INSERT OR REPLACE INTO packs (pack, size) VALUES (?, ?)", (pack, size))

    def drop_pack(self, pack: int) -> None:
        self._db.execute("DELETE FROM packs WHERE pack = ?", (pack,))

    def put_objects(self, objects: Iterable[tuple[bytes, OffsetRow]]) -> None:
        """Adds objects with their offsets."""
        rows = chain.from_iterable(_sorted_by_digest(objects))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            marks = ",".join(["(?,?,?,?)"] * len(some))
            statement = f"INSERT OR REPLACE INTO objects VALUES {marks}"  # noqa: S608 - marks
            self._db.execute(statement, list(chain.from_iterable(some)))

    def drop_objects(self, digests: Iterable[bytes]) -> None:
        self._db.executemany("DELETE FROM objects WHERE digest = ?", ((digest,) for digest in digests))

    # Cached pages

    def cached_page(self, key: bytes) -> CachedPage | None:
        """Returns the cached page under a key, if there is one."""
        row = self._fetch_one("SELECT looks, below, page, files, links, size FROM seen WHERE place = ?", key)
        return CachedPage(*row) if row else None

    def all_cached_pages(self, limit: int) -> dict[bytes, CachedPage] | None:
        """Returns all cached pages, which is quicker than one by one; None if there are more than `limit`."""
        with translate_sqlite_errors(self.path):
            if self._db.execute("SELECT count(*) FROM seen").fetchone()[0] > limit:
                return None
            return {row[0]: CachedPage(*row[1:]) for row in self._db.execute("SELECT * FROM seen")}

    def put_cached_pages(self, rows: Iterable[tuple[bytes, CachedPage]]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?)", ((place, *row) for place, row in rows)
        )

    def clear_cached_pages(self) -> None:
        self._db.execute("DELETE FROM seen")

    def drop_stale_cached_pages(self) -> None:
        """Drops cached pages whose object is no longer stored, so that they are read again."""
        self._db.execute("DELETE FROM seen WHERE page NOT IN (SELECT digest FROM objects)")

    # Snapshots

    def add_snapshot(self, snapshot: Snapshot, record: bytes | None = None) -> int:
        """Adds a snapshot and returns its number. `record` is the digest of its record in the packs."""
        counts = snapshot.counts
        notes = json.dumps([[note.path.hex(), note.why] for note in snapshot.notes])
        row = (
            *(snapshot.id, os.fsencode(snapshot.root), snapshot.time_ns, snapshot.agent, snapshot.reason),
            *(snapshot.parent, snapshot.tree, snapshot.mode),
            *(counts.files, counts.folders, counts.links, counts.skipped, counts.torn, counts.size, notes, record),
        )
        marks = ",".join("?" * len(row))
        names = _COLUMNS.partition(", ")[2]
        statement = f"INSERT INTO snapshots ({names}, notes, record) VALUES ({marks})"  # noqa: S608 - constants
        return self._db.execute(statement, row).lastrowid or 0

    def snapshots(self, root: str | None = None) -> list[Snapshot]:
        """Returns all snapshots, newest first; with `root` those of that folder."""
        where, values = ("", ()) if root is None else ("WHERE root = ?", (os.fsencode(root),))
        with translate_sqlite_errors(self.path):
            rows = self._db.execute(
                f"SELECT {_COLUMNS}, notes FROM snapshots {where} ORDER BY number DESC",  # noqa: S608 - constants
                values,
            )
            return [_snapshot_from_row(row) for row in rows]

    def newest_snapshot(self, root: str) -> Snapshot | None:
        """Returns the newest snapshot of a folder, if there is one."""
        row = self._fetch_one(
            f"SELECT {_COLUMNS}, notes FROM snapshots WHERE root = ? ORDER BY number DESC LIMIT 1",  # noqa: S608
            os.fsencode(root),
        )
        return _snapshot_from_row(row) if row else None

    def snapshots_by_prefix(self, prefix: str) -> list[Snapshot]:
        """Returns at most two snapshots whose id begins with `prefix`: one, unless it is unknown or ambiguous."""
        with translate_sqlite_errors(self.path):
            rows = self._db.execute(
                f"SELECT {_COLUMNS}, notes FROM snapshots WHERE id >= ? AND id < ? LIMIT 2",  # noqa: S608 - constants
                (prefix, prefix + "g"),
            )
            return [_snapshot_from_row(row) for row in rows]

    def records(self) -> dict[int, bytes]:
        """Returns, by the number of a snapshot, the digest of its record in the packs."""
        with translate_sqlite_errors(self.path):
            return dict(self._db.execute("SELECT number, record FROM snapshots WHERE record IS NOT NULL"))

    def drop_snapshots(self, numbers: Iterable[int]) -> None:
        self._db.executemany("DELETE FROM snapshots WHERE number = ?", ((number,) for number in numbers))

    def _fetch_one(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        with translate_sqlite_errors(self.path):
            return self._db.execute(statement, values).fetchone()


def _sorted_by_digest(objects: Iterable[tuple[bytes, OffsetRow]]) -> Iterator[list[tuple[bytes, int, int, int]]]:
    """Yields the rows in the order of the B-tree that they go into: its pages are then filled one after the other.

    Sorted in parts, because sorting one list holds the GIL.
    """
    parts: list[list[tuple[bytes, int, int, int]]] = [[] for _ in range(256)]
    for digest, (pack, at, size) in objects:
        parts[digest[0]].append((digest, pack, at, size))
    for part in parts:
        part.sort()
        yield part


def _snapshot_from_row(row: tuple[Any, ...]) -> Snapshot:
    number, name, root, time_ns, agent, reason, parent, tree, mode, *counted, notes = row
    listed = tuple(PathNote(bytes.fromhex(path), why) for path, why in json.loads(notes))
    files, folders, links, skipped, torn, size = counted
    counts = Counts(files, folders, links, skipped, torn, size)
    return Snapshot(number, name, os.fsdecode(root), time_ns, agent, reason, parent, tree, mode, counts, listed)
