"""The index on disk: one SQLite file of the state folder.

One row holds a word's weights in the tools of one server, so that replacing a server touches its own rows and a query
reads a few rows by key. Nothing is loaded when the file is opened. Readers see one committed state while a writer is
at work (WAL). The file belongs to whoever syncs; it can be deleted at any time and costs one sync.

A file of another format, or a damaged one, is never repaired: it counts as absent, and a writer starts a new one.
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
"""Of one SQL statement; SQLite takes 999 and more."""
TOOL_BITS = 16
"""A tool's key is its server's number and its place there: `server << TOOL_BITS | place`."""
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
    """Unsigned 16-bit numbers: the places of the tools, then as many weights."""


@dataclass(frozen=True, slots=True)
class IndexedServer:
    id: int
    name: str
    tools: int
    fingerprint: str
    model: str
    """What made its vectors; empty where there are none."""


class IndexStore:
    """One open index file. Not for several threads at once: the index holds a lock around it."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._inode = os.stat(path).st_ino
        self._has_removed = False

    @classmethod
    def open_existing(cls, path: str) -> tuple[IndexStore | None, str]:
        """The file as it is, or None and why it cannot serve."""
        if not os.path.exists(path):
            return None, "There is no search index yet."
        try:
            return cls(_connect_checked(path), path), ""
        except _UnusableIndex as fault:
            return None, str(fault)

    @classmethod
    def open_or_create(cls, path: str) -> tuple[IndexStore, str]:
        """The file, made anew where it cannot serve; then also a note of why."""
        note = ""
        if os.path.exists(path):
            try:
                return cls(_connect_checked(path, thorough=True), path), ""
            except _UnusableIndex as fault:
                note = f"{fault} It was started anew."
        return cls(_create_file(path), path), note

    @property
    def is_current(self) -> bool:
        """Whether the file under this name is still the open one."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def read_transaction(self) -> Generator[None]:
        """One committed state for everything inside."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @contextlib.contextmanager
    def write_transaction(self) -> Generator[None]:
        """All of what is inside, or nothing of it."""
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
        """Changes when another connection has committed."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def servers(self) -> list[IndexedServer]:
        return [
            IndexedServer(*row)
            for row in self._connection.execute("SELECT id, name, tools, fingerprint, model FROM server")
        ]

    def remove(self, server: str) -> bool:
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
        """`vector` is the server's own."""
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
        for at in range(0, len(wanted), _WORDS_PER_QUERY):
            some = wanted[at : at + _WORDS_PER_QUERY]
            marks = ",".join("?" * len(some))
            question = f"SELECT word, server, peak, data FROM posting WHERE word IN ({marks})"  # noqa: S608 - marks only
            for row in self._connection.execute(question, some):
                yield Posting(*row)

    def tools(self, keys: Sequence[int]) -> dict[int, StoredTool]:
        marks = ",".join("?" * len(keys))
        question = f"SELECT key, name, path, signature, summary, name_key, sketch FROM tool WHERE key IN ({marks})"  # noqa: S608
        return {row[0]: StoredTool(*row[1:]) for row in self._connection.execute(question, keys)}

    def tool_summaries(self) -> Iterator[tuple[int, str, str]]:
        """Key, name and summary of every tool, those of a server together."""
        yield from self._connection.execute("SELECT key, name, summary FROM tool ORDER BY key")

    def vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Of every tool of the servers whose vectors that model made."""
        question = (
            "SELECT key, tool.vector FROM tool JOIN server ON server.id = key >> ? "
            "WHERE server.model = ? AND tool.vector IS NOT NULL ORDER BY key"
        )
        return list(self._connection.execute(question, (TOOL_BITS, model)))

    def server_vectors(self, model: str) -> list[tuple[int, bytes]]:
        question = "SELECT id, vector FROM server WHERE model = ? AND vector IS NOT NULL ORDER BY id"
        return list(self._connection.execute(question, (model,)))

    def server_and_tool_vectors(self, server: str) -> list[bytes]:
        """Those of its tools and its own."""
        question = (
            "SELECT tool.vector FROM tool JOIN server ON server.id = key >> ? "
            "WHERE server.name = ? AND tool.vector IS NOT NULL "
            "UNION ALL SELECT vector FROM server WHERE name = ? AND vector IS NOT NULL"
        )
        return [row[0] for row in self._connection.execute(question, (TOOL_BITS, server, server))]

    def words(self) -> list[str]:
        return [row[0] for row in self._connection.execute("SELECT word FROM word")]


class _UnusableIndex(Exception):  # noqa: N818 - says what is wrong with a file, and stays in this module
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
    if thorough and (said := _pragma(connection, "quick_check")) != "ok":
        raise _UnusableIndex(f"The search index {path} is damaged ({str(said).splitlines()[0]}).")


def _create_file(path: str) -> sqlite3.Connection:
    """A new, empty file; or that of another writer who was quicker."""
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
        # With a WAL this can lose the last sync in a power cut, which the fingerprints show, and never the file.
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
