"""A persistent cache store in one SQLite file, which several processes may share.

The store owns one connection, open from construction to `close()`. A power failure may lose the last changes, but
never part of one. Content is stored with a digest of content and metadata; an entry that does not match its digest
counts as missing. Any other problem with the file raises SystemFault.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse
from collections.abc import Generator
from typing import Any

from blake3 import blake3

from toolyard.bridge.cache_store import DAMAGED_HINT, CachedFile, CacheKey, CacheTotal
from toolyard.core.errors import SystemFault
from toolyard.storage.disk_full import FREE_SPACE, is_disk_full
from toolyard.storage.sqlite import create_private_file, enable_wal

_BUSY_SECONDS = 10.0
_MAX_WAL_BYTES = 8 * 2**20
"""The size to which the write-ahead log is truncated after a checkpoint."""
_PRIMARY_CODE_MASK = 0xFF
"""Masks the primary result code of an SQLite error; higher bits are the extended code."""
_APPLICATION_ID = 0x54594243
"""The SQLite application id of our files, which SQLite's own tools also show."""
_VERSION = 1
# The content is in a separate table, so that updating the last use rewrites a small row, not the content.
_SCHEMA = (
    """CREATE TABLE files (
        id INTEGER PRIMARY KEY, client BLOB NOT NULL, path BLOB NOT NULL, used INTEGER NOT NULL,
        size INTEGER NOT NULL, mtime REAL, encoding BLOB NOT NULL, is_binary INTEGER NOT NULL, stored REAL NOT NULL,
        digest BLOB NOT NULL, UNIQUE (client, path)
    )""",
    "CREATE INDEX by_use ON files (used)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    "CREATE TABLE total (entries INTEGER NOT NULL, bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    """CREATE TRIGGER added AFTER INSERT ON files BEGIN
        UPDATE total SET entries = entries + 1, bytes = bytes + NEW.size;
    END""",
    """CREATE TRIGGER dropped AFTER DELETE ON files BEGIN
        UPDATE total SET entries = entries - 1, bytes = bytes - OLD.size;
        DELETE FROM contents WHERE id = OLD.id;
    END""",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)
_FIND = """
    SELECT content, mtime, encoding, is_binary, stored, digest FROM files JOIN contents USING (id)
    WHERE client = ? AND path = ?
"""
_ADD = """
    INSERT INTO files (client, path, used, size, mtime, encoding, is_binary, stored, digest)
    VALUES (?, ?, (SELECT coalesce(max(used), 0) + 1 FROM files), ?, ?, ?, ?, ?, ?)
"""
_TOUCH = """
    UPDATE files SET used = (SELECT max(used) + 1 FROM files)
    WHERE client = ? AND path = ? AND used < (SELECT max(used) FROM files)
"""


class SqliteStore:
    """A `CacheStore` in an SQLite file."""

    may_block = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SystemFault."""
        self._path = os.path.abspath(path)
        with self._translate_errors():
            create_private_file(self._path)
            # mode=rw: a file deleted at this moment is not recreated with default permissions.
            uri = f"file:{urllib.parse.quote(self._path)}?mode=rw"
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with self._translate_errors():
            self._connection.close()

    @contextlib.contextmanager
    def read_transaction(self) -> Generator[None]:
        with self._translate_errors(), self._transaction("BEGIN"):
            yield

    @contextlib.contextmanager
    def write_transaction(self) -> Generator[None]:
        with self._translate_errors(), self._transaction("BEGIN IMMEDIATE"):
            yield

    def find(self, key: CacheKey) -> CachedFile | None:
        packed = _key_columns(key)
        row = self._fetch_row(_FIND, packed)
        if row is None:
            return None
        content, mtime, encoding, is_binary, stored, digest = row
        if not isinstance(content, bytes) or digest != _digest(packed, (mtime, encoding, is_binary, stored), content):
            return None
        encoding_name = str(encoding, "utf-8", "surrogatepass")
        return CachedFile(key.path, content, len(content), mtime, encoding_name, is_binary == 1, stored)

    def add(self, key: CacheKey, file: CachedFile) -> None:
        packed = _key_columns(key)
        # Times as they will be read back: floats, and no negative zero.
        mtime = None if file.mtime is None else file.mtime + 0.0
        about = (mtime, _encode_text(file.encoding), int(file.is_binary), file.stored + 0.0)
        digest = _digest(packed, about, file.content)
        added = self._connection.execute(_ADD, (*packed, file.size, *about, digest))
        self._connection.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", (added.lastrowid, file.content))

    def touch(self, key: CacheKey) -> None:
        self._connection.execute(_TOUCH, _key_columns(key))

    def drop(self, key: CacheKey) -> bool:
        query = "DELETE FROM files WHERE client = ? AND path = ?"
        return self._connection.execute(query, _key_columns(key)).rowcount > 0

    def oldest(self) -> float | None:
        row = self._fetch_row("SELECT CAST(stored AS REAL) FROM files ORDER BY id LIMIT 1")
        return None if row is None else row[0]

    def drop_oldest(self) -> None:
        self._connection.execute("DELETE FROM files WHERE id = (SELECT min(id) FROM files)")

    def drop_least_used(self) -> None:
        query = "DELETE FROM files WHERE id = (SELECT id FROM files ORDER BY used LIMIT 1)"
        if self._connection.execute(query).rowcount == 0:
            self._recount()  # otherwise making room would loop for ever

    def drop_all(self, client: str | None) -> None:
        if client is None:
            self._connection.execute("DELETE FROM files")
        else:
            self._connection.execute("DELETE FROM files WHERE client = ?", (_encode_text(client),))

    def total(self) -> CacheTotal:
        return CacheTotal(*self._fetch_row("SELECT entries, bytes FROM total") or (0, 0))

    def purge(self) -> None:
        """What was dropped goes out of the log, too; where another process is using that, with a later one."""
        with self._translate_errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _fetch_row(self, query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        return self._connection.execute(query, values).fetchone()

    def _recount(self) -> None:
        self._connection.execute("DELETE FROM total")
        self._connection.execute("INSERT INTO total SELECT count(*), coalesce(sum(size), 0) FROM files")

    def _prepare(self) -> None:
        connection = self._connection
        connection.text_factory = bytes  # an undamaged file contains no text values
        # Checked before anything is changed; if the database is busy, the check below repeats it.
        with contextlib.suppress(sqlite3.OperationalError), self._transaction("BEGIN"):
            self._require_cache_database()
        enable_wal(connection, _BUSY_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
        with self._transaction("BEGIN IMMEDIATE"):
            if self._require_cache_database() == 0:
                for statement in _SCHEMA:
                    connection.execute(statement)
            self._recount()

    def _require_cache_database(self) -> int:
        """Returns the schema version; 0 for an empty file. Needs a transaction: another process may create it."""
        (application,) = self._fetch_row("PRAGMA application_id") or (0,)
        (version,) = self._fetch_row("PRAGMA user_version") or (0,)
        if application != _APPLICATION_ID and (version or self._fetch_row("SELECT 1 FROM sqlite_master LIMIT 1")):
            hint = "Name another file for the cache."
            raise SystemFault(f"{self._path} is another program's database, not a cache.", hint=hint)
        if version > _VERSION:
            hint = "Use that version, or name another file."
            raise SystemFault(f"The cache in {self._path} was written by a newer version of Toolyard.", hint=hint)
        return version

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Generator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except (TypeError, ValueError) as error:  # a value of another type than was stored
            raise SystemFault(f"The cache in {self._path} is damaged: {error}.", hint=DAMAGED_HINT) from error
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and is_disk_full(error, self._path):
                message = f"The cache in {self._path} cannot be written: the disk is full."
                raise SystemFault(message, hint=FREE_SPACE, retryable=True) from error
            if _is_damage(error):
                raise SystemFault(f"The cache in {self._path} is damaged: {error}.", hint=DAMAGED_HINT) from error
            raise SystemFault(
                f"The cache in {self._path} cannot be used: {error}.",
                hint="Check the folder and its disk.",
                retryable=isinstance(error, sqlite3.OperationalError),
            ) from error


def _key_columns(key: CacheKey) -> tuple[bytes, bytes]:
    return _encode_text(key.client), _encode_text(key.path)


def _encode_text(text: str) -> bytes:
    """Encodes any text, including surrogates from names that are not valid UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def _digest(key: tuple[bytes, bytes], about: tuple[object, ...], content: bytes) -> bytes:
    return blake3(ascii((*key, *about)).encode("ascii")).update(content).digest()


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE_MASK in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }
