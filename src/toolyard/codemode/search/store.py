"""The index on disk: one SQLite file in the state folder.

A row holds a word's weights in the tools of one server, so that replacing a server touches only its own rows and a
query reads a few rows by key. Opening the file loads nothing. Readers see one committed state while a writer works
(WAL). Sync owns the file; it can be deleted at any time at the cost of one sync.

A damaged file, or one of another format, is never repaired: it counts as missing, and a writer creates a new one.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from toolyard.core.errors import SystemFault
from toolyard.storage.disk_full import check_descriptors

_APPLICATION = 0x546F6F79  # "Tooy"
_FORMAT = 2
_PRIVATE_FILE = 0o600
_BUSY_TIMEOUT_MS = 10_000
_WORDS_PER_QUERY = 500
"""Words of one SQL statement; SQLite allows at least 999."""
TOOL_BITS = 16
"""A tool's key is its server's number and its position there: `server << TOOL_BITS | position`."""
MAX_TOOLS = 1 << TOOL_BITS

_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
CREATE TABLE server (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, tools INTEGER NOT NULL,
                     fingerprint TEXT NOT NULL, model TEXT NOT NULL, vector BLOB);
CREATE TABLE tool (key INTEGER PRIMARY KEY, name TEXT NOT NULL, path TEXT NOT NULL, signature TEXT NOT NULL,
                   summary TEXT NOT NULL, name_key TEXT NOT NULL, sketch BLOB NOT NULL, vector BLOB);
CREATE TABLE posting (word TEXT NOT NULL, server INTEGER NOT NULL, peak INTEGER NOT NULL, data BLOB NOT NULL,
                      PRIMARY KEY (word, server)) WITHOUT ROWID;
CREATE INDEX posting_of_server ON posting (server);
CREATE TABLE word (word TEXT PRIMARY KEY) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class StoredTool:
    """One tool as stored."""

    name: str
    path: str
    signature: str
    summary: str
    name_key: str
    sketch: bytes
    vector: bytes | None = None


class Posting(NamedTuple):
    """One word in the tools of one server."""

    word: str
    server: int
    peak: int
    data: bytes
    """Unsigned 16-bit numbers: the positions of the tools, then as many weights."""


@dataclass(frozen=True, slots=True)
class IndexedServer:
    """One server as stored."""

    id: int
    name: str
    tools: int
    fingerprint: str
    model: str
    """The model of its vectors; empty if it has none."""


class IndexStore:
    """One open index file. Not thread-safe: the index holds a lock around it."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._inode = os.stat(path).st_ino
        self._has_removed = False

    @classmethod
    def open_existing(cls, path: str) -> tuple[IndexStore | None, str]:
        """Opens the file, or returns None and the reason."""
        if not os.path.exists(path):
            return None, "There is no search index yet."
        try:
            return cls(_connect_checked(path), path), ""
        except _UnusableIndex as fault:
            return None, str(fault)

    @classmethod
    def open_or_create(cls, path: str) -> tuple[IndexStore, str]:
        """Opens the file for writing. An unusable one is recreated, with a note."""
        note = ""
        if os.path.exists(path):
            try:
                return cls(_connect_checked(path, thorough=True), path), ""
            except _UnusableIndex as fault:
                note = f"{fault} A new one was created."
        return cls(_create_file(path), path), note

    @property
    def is_current(self) -> bool:
        """Whether the path still names the open file."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def read_transaction(self) -> Generator[None]:
        """Shows one committed state to the whole block."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @contextlib.contextmanager
    def write_transaction(self) -> Generator[None]:
        """Commits everything in the block, or nothing."""
        self._has_removed = False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            if self._has_removed:
                self._connection.execute(
                    "DELETE FROM word WHERE NOT EXISTS (SELECT 1 FROM posting WHERE posting.word = word.word)"
                )
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def version(self) -> int:
        """Returns a number that changes when another connection commits."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def servers(self) -> list[IndexedServer]:
        return [
            IndexedServer(*row)
            for row in self._connection.execute("SELECT id, name, tools, fingerprint, model FROM server")
        ]

    def remove(self, server: str) -> bool:
        """Removes a server and its tools. Returns False if it is not stored."""
        row = self._connection.execute("SELECT id FROM server WHERE name = ?", (server,)).fetchone()
        if row is None:
            return False
        number = int(row[0])
        self._has_removed = True
        self._connection.execute("DELETE FROM posting WHERE server = ?", (number,))
        first = number << TOOL_BITS
        self._connection.execute("DELETE FROM tool WHERE key >= ? AND key < ?", (first, first + MAX_TOOLS))
        self._connection.execute("DELETE FROM server WHERE id = ?", (number,))
        return True

    def add(
        self,
        server: str,
        fingerprint: str,
        model: str,
        tools: Sequence[StoredTool],
        weights: Sequence[dict[str, int]],
        *,
        vector: bytes | None = None,
    ) -> None:
        """Stores a server and its tools. `vector` is the server's own."""
        row = self._connection.execute(
            "INSERT INTO server (name, tools, fingerprint, model, vector) VALUES (?, ?, ?, ?, ?) RETURNING id",
            (server, len(tools), fingerprint, model, vector),
        ).fetchone()
        number = int(row[0])
        first = number << TOOL_BITS
        self._connection.executemany(
            "INSERT INTO tool VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    first + place,
                    tool.name,
                    tool.path,
                    tool.signature,
                    tool.summary,
                    tool.name_key,
                    tool.sketch,
                    tool.vector,
                )
                for place, tool in enumerate(tools)
            ),
        )
        rows = [(word, number, peak, data) for word, peak, data in _build_postings(weights)]
        self._connection.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT OR IGNORE INTO word VALUES (?)", ((row[0],) for row in rows))

    def postings(self, wanted: Sequence[str]) -> Iterator[Posting]:
        """Yields the postings of these words."""
        for at in range(0, len(wanted), _WORDS_PER_QUERY):
            some = wanted[at : at + _WORDS_PER_QUERY]
            marks = ",".join("?" * len(some))
            question = f"SELECT word, server, peak, data FROM posting WHERE word IN ({marks})"  # noqa: S608 - marks only
            for row in self._connection.execute(question, some):
                yield Posting(*row)

    def tools(self, keys: Sequence[int]) -> dict[int, StoredTool]:
        """Returns the tools with these keys."""
        marks = ",".join("?" * len(keys))
        question = f"SELECT key, name, path, signature, summary, name_key, sketch FROM tool WHERE key IN ({marks})"  # noqa: S608
        return {row[0]: StoredTool(*row[1:]) for row in self._connection.execute(question, keys)}

    def tool_summaries(self) -> Iterator[tuple[int, str, str]]:
        """Yields key, name and summary of every tool, grouped by server."""
        yield from self._connection.execute("SELECT key, name, summary FROM tool ORDER BY key")

    def vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Returns the vectors of all tools that were computed by `model`."""
        question = (
            "SELECT key, tool.vector FROM tool JOIN server ON server.id = key >> ? "
            "WHERE server.model = ? AND tool.vector IS NOT NULL ORDER BY key"
        )
        return list(self._connection.execute(question, (TOOL_BITS, model)))

    def server_vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Returns the vectors of all servers that were computed by `model`."""
        question = "SELECT id, vector FROM server WHERE model = ? AND vector IS NOT NULL ORDER BY id"
        return list(self._connection.execute(question, (model,)))

    def server_and_tool_vectors(self, server: str) -> list[bytes]:
        """Returns the vectors of a server and of its tools."""
        question = (
            "SELECT tool.vector FROM tool JOIN server ON server.id = key >> ? "
            "WHERE server.name = ? AND tool.vector IS NOT NULL "
            "UNION ALL SELECT vector FROM server WHERE name = ? AND vector IS NOT NULL"
        )
        return [row[0] for row in self._connection.execute(question, (TOOL_BITS, server, server))]

    def words(self) -> list[str]:
        """Returns all indexed words."""
        return [row[0] for row in self._connection.execute("SELECT word FROM word")]


class _UnusableIndex(Exception):  # noqa: N818 - describes a file, and stays in this module
    pass


def _connect_checked(path: str, *, thorough: bool = False) -> sqlite3.Connection:
    try:
        connection = _connect(path)
        try:
            _check_format(connection, path, thorough=thorough)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as error:
        raise _UnusableIndex(f"The search index {path} cannot be read ({error}).") from error
    return connection


def _check_format(connection: sqlite3.Connection, path: str, *, thorough: bool) -> None:
    application, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
    if application != _APPLICATION:
        raise _UnusableIndex(f"{path} is not a search index.")
    if version != _FORMAT:
        raise _UnusableIndex(
            f"The search index {path} has format {version}; this version of Toolyard reads format {_FORMAT}."
        )
    connection.execute("SELECT count(*) FROM server").fetchone()
    if thorough and (report := _pragma(connection, "quick_check")) != "ok":
        raise _UnusableIndex(f"The search index {path} is damaged ({str(report).splitlines()[0]}).")


def _create_file(path: str) -> sqlite3.Connection:
    """Creates an empty file, unless another writer was faster."""
    draft = f"{path}.{os.getpid()}.new"
    try:
        for name in (path, f"{path}-wal", f"{path}-shm", f"{path}-journal", draft):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _PRIVATE_FILE))
        try:
            with contextlib.closing(_connect(draft)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_SCHEMA)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            os.unlink(draft)
        return _connect(path)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error):
            check_descriptors(error)
        raise SystemFault(
            f"The search index {path} cannot be written: {error}.",
            hint="Move it away, or choose another state folder with --state DIR.",
        ) from error


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT_MS / 1_000, isolation_level=None, check_same_thread=False
    )
    try:
        # In WAL mode, a power failure can lose the last sync (detected by its fingerprints), but never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _build_postings(weights: Iterable[dict[str, int]]) -> Iterator[tuple[str, int, bytes]]:
    places: dict[str, list[int]] = {}
    found: dict[str, list[int]] = {}
    for place, tool in enumerate(weights):
        for word, weight in tool.items():
            places.setdefault(word, []).append(place)
            found.setdefault(word, []).append(weight)
    for word in sorted(places):
        yield word, max(found[word]), array("H", places[word] + found[word]).tobytes()
