"""The catalog: the tools of every server, pinned as they were first seen.

One SQLite file in the state folder, which many processes may open. If a known tool's schema or description changes,
the catalog keeps the pinned form and *quarantines* the tool: its new form is pending until the user accepts it,
unless its server is trusted. New tools of a known server are pinned immediately. The pin of a removed tool is kept:
if it returns in another form, it is quarantined as well.

`Catalog` owns the connection until `close()`. It is thread-safe.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, cast

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.fd_exhaustion import fd_exhaustion_fault
from toolyard.core.upstream import Json, ServerListing, ToolSchema
from toolyard.storage.disk_full import FREE_SPACE, check_descriptors, is_disk_full
from toolyard.storage.sqlite import create_private_file, enable_wal

FILE_NAME = "catalog.sqlite"
_VERSION = 1
_BUSY_SECONDS = 10.0
_SHORT_WAIT_SECONDS = 1.0
_REBUILD = "Run `toolyard sync --rebuild`, which moves the file aside and asks every server again."
_TABLES = """
create table servers (
    name text primary key, evidence text not null default '', asked real not null default 0,
    version text not null default '', protocol text not null default '', instructions text not null default '',
    error text not null default '', written text not null default '', stderr text not null default ''
) without rowid;
create table tools (
    server text not null, name text not null, position integer not null, fingerprint text not null,
    schema text not null, waiting text, inferred text, gone integer not null default 0,
    primary key (server, name)
) without rowid;
"""


class CatalogBusy(SystemFault):
    """Another process is writing to the catalog, and the caller would not wait."""


class ChangeKind(StrEnum):
    """How a tool changed."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One change of a server's tools."""

    server: str
    tool: str
    change: ChangeKind
    is_quarantined: bool = False


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A server, as the catalog knows it."""

    name: str
    evidence: str = ""
    """The fingerprint of the server's entry and files at the last listing. If it is equal, nothing changed."""
    asked_at: float = 0.0
    """When it was last asked for its tools (seconds since the epoch); 0 if it never answered."""
    version: str = ""
    protocol: str = ""
    instructions: str = ""
    error: str = ""
    """Why it could not be asked the last time."""
    written: str = ""
    """What was written to disk for it, in the format of `file_writer`."""
    stderr: str = ""
    """The end of its stderr output."""

    def to_listing(self, tools: Iterable[KnownTool]) -> ServerListing:
        """Returns the server with its tools as pinned."""
        schemas = tuple(tool.schema for tool in tools)
        return ServerListing(self.name, schemas, self.version, self.protocol, self.instructions)


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool, as the catalog knows it."""

    server: str
    schema: ToolSchema
    """The pinned form."""
    fingerprint: str
    pending: ToolSchema | None = None
    """The current form, not yet accepted."""
    inferred: Json | None = None
    """The schema of its results, inferred from one of them, if it declares none."""


class Catalog(Closeable):
    """The pinned tools of all servers."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._lock = threading.RLock()

    @classmethod
    def open(cls, state: str) -> Catalog:
        """Opens the catalog of a state folder, and creates it if it is missing."""
        path = os.path.join(state, FILE_NAME)
        with translate_catalog_errors(path):
            create_private_file(path)
            connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
            catalog = cls(connection, path)
            try:
                catalog._prepare()
            except BaseException:
                catalog.close()
                raise
        return catalog

    def _prepare(self) -> None:
        connection = self._connection
        enable_wal(connection, _BUSY_SECONDS)
        connection.execute("pragma synchronous = normal")
        with self._transaction():
            (version,) = connection.execute("pragma user_version").fetchone()
            if version == 0:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {_VERSION}")
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it was created by another version of Toolyard ({version})")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def servers(self) -> tuple[KnownServer, ...]:
        """Returns all known servers."""
        columns = "name, evidence, asked, version, protocol, instructions, error, written, stderr"
        return tuple(KnownServer(*row) for row in self._fetch_rows(f"select {columns} from servers order by name"))  # noqa: S608 - constant

    def tools(self, server: str) -> tuple[KnownTool, ...]:
        """Returns the tools of a server, in its own order."""
        columns = "schema, fingerprint, waiting, inferred"
        rows = self._fetch_rows(
            f"select {columns} from tools where server = ? and gone = 0 order by position",  # noqa: S608 - constant
            server,
        )
        with translate_catalog_errors(self._path):
            return tuple(_tool_from_row(server, row) for row in rows)

    def tool(self, server: str, name: str) -> KnownTool | None:
        """Returns a tool, or None."""
        rows = self._fetch_rows(
            "select schema, fingerprint, waiting, inferred from tools where server = ? and name = ? and gone = 0",
            *(server, name),
        )
        with translate_catalog_errors(self._path):
            return next((_tool_from_row(server, row) for row in rows), None)

    def tool_names(self, server: str) -> tuple[str, ...]:
        rows = self._fetch_rows("select name from tools where server = ? and gone = 0 order by position", server)
        return tuple(row[0] for row in rows)

    def tool_counts(self) -> Mapping[str, int]:
        """Returns the number of tools by server."""
        return dict(self._fetch_rows("select server, count(*) from tools where gone = 0 group by server"))

    def record_listing(
        self, listing: ServerListing, evidence: str | None, *, is_trusted: bool = False
    ) -> tuple[ToolChange, ...]:
        """Records what a server lists now. Returns the changes, a quarantined tool only once.

        Without `evidence` the listing comes from a call. New tools are then left for sync to report: they are not
        recorded, and sync asks again. Changed and new tools of a trusted server are pinned immediately.
        """
        server, changes = listing.server, list[ToolChange]()
        # Of two tools with one name the first counts. SQLite cannot store names with lone surrogates.
        now = {schema.name: schema for schema in reversed(listing.tools) if _is_text(schema.name)}
        listed = [schema for schema in listing.tools if now.get(schema.name) is schema]
        if evidence is None and _is_unchanged({tool.schema.name: tool for tool in self.tools(server)}, listed):
            return ()
        with self._transaction(0.0 if evidence is None else _BUSY_SECONDS):
            before = {tool.schema.name: tool for tool in self.tools(server)}
            for name in before.keys() - now.keys():
                self._execute("update tools set gone = 1, waiting = null where server = ? and name = ?", server, name)
                changes.append(ToolChange(server, name, ChangeKind.REMOVED))
            if evidence is None and not is_trusted:
                seen = [schema for schema in listed if self._pinned_fingerprint(server, schema.name) is not None]
                evidence, listed = None if len(seen) == len(listed) else "", seen
            for position, schema in enumerate(listed):
                changes += self._record_tool(server, position, schema, before.get(schema.name), is_trusted=is_trusted)
            self._execute(
                "insert into servers (name, evidence, asked, version, protocol, instructions)"
                " values (?, ?, ?, ?, ?, ?)"
                " on conflict (name) do update set evidence = ifnull(?, evidence), asked = excluded.asked,"
                " version = excluded.version, protocol = excluded.protocol, instructions = excluded.instructions,"
                " error = ''",
                *(server, evidence or "", time.time()),
                *map(_storable_text, (listing.version, listing.protocol, listing.instructions)),
                evidence,
            )
        return tuple(changes)

    def version(self) -> int:
        """Returns a number that changes when another process has changed the catalog."""
        with self._lock, translate_catalog_errors(self._path):
            return int(self._connection.execute("pragma data_version").fetchone()[0])

    def _record_tool(
        self, server: str, position: int, schema: ToolSchema, before: KnownTool | None, *, is_trusted: bool
    ) -> Iterator[ToolChange]:
        text = _schema_json(schema)
        pin = before.fingerprint if before is not None else self._pinned_fingerprint(server, schema.name)
        if pin is None:
            self._execute(
                "insert into tools (server, name, position, fingerprint, schema) values (?, ?, ?, ?, ?)",
                *(server, schema.name, position, tool_fingerprint(schema), text),
            )
            yield ToolChange(server, schema.name, ChangeKind.ADDED)
            return
        is_same = tool_fingerprint(schema) == pin
        self._execute(
            "update tools set position = ?, waiting = ?, gone = 0 where server = ? and name = ?",
            *(position, None if is_same else text, server, schema.name),
        )
        if not is_same and is_trusted:
            yield self._pin(server, schema)
        elif is_same and before is None:
            yield ToolChange(server, schema.name, ChangeKind.ADDED)
        elif not is_same and (before is None or before.pending != schema):
            yield ToolChange(server, schema.name, ChangeKind.CHANGED, is_quarantined=True)

    def _pinned_fingerprint(self, server: str, name: str) -> str | None:
        """Returns the pinned fingerprint of a tool, even if the tool is gone."""
        rows = self._fetch_rows("select fingerprint from tools where server = ? and name = ?", server, name)
        return rows[0][0] if rows else None

    def pending_fingerprints(self) -> Mapping[tuple[str, str], str]:
        """Returns the fingerprint of each form that waits to be accepted."""
        return {
            (tool.server, tool.schema.name): tool_fingerprint(tool.pending)
            for tool in self.quarantined_tools()
            if tool.pending is not None
        }

    def accept_pending(
        self, servers: Iterable[str], seen: Mapping[tuple[str, str], str] | None = None
    ) -> tuple[ToolChange, ...]:
        """Pins the pending forms of these servers. Forms that differ from those the user was shown (`seen`) stay
        pending.
        """
        changes: list[ToolChange] = []
        with self._transaction():
            for tool in [tool for server in servers for tool in self.tools(server)]:
                server, name, new = tool.server, tool.schema.name, tool.pending
                if new is None or (seen or {}).get((server, name), tool_fingerprint(new)) != tool_fingerprint(new):
                    continue
                changes.append(self._pin(server, new))
        return tuple(changes)

    def _pin(self, server: str, schema: ToolSchema) -> ToolChange:
        """Pins the new form of a known tool."""
        self._execute(
            "update tools set schema = ?, fingerprint = ?, waiting = null, inferred = null"
            " where server = ? and name = ?",
            *(_schema_json(schema), tool_fingerprint(schema), server, schema.name),
        )
        return ToolChange(server, schema.name, ChangeKind.CHANGED)

    def quarantined_tools(self) -> tuple[KnownTool, ...]:
        """Returns the tools with a pending form."""
        rows = self._fetch_rows(
            "select server, schema, fingerprint, waiting, inferred from tools where waiting is not null"
            " and gone = 0 order by server, position"
        )
        return tuple(_tool_from_row(row[0], row[1:]) for row in rows)

    def record_failure(self, server: str, error: str) -> None:
        """Records that a server could not be asked. Its pins stay."""
        self._execute(
            "insert into servers (name, error) values (?, ?) on conflict (name) do update set error = excluded.error",
            *(server, _storable_text(error)),
        )

    def record_written_files(self, server: str, written: str) -> None:
        """Records what was written to disk for a server."""
        self._execute("update servers set written = ? where name = ?", written, server)

    def record_stderr(self, server: str, stderr: str, error: str) -> None:
        """Stores the end of a server's stderr, and its error if it failed, for diagnosis."""
        with self._transaction(_SHORT_WAIT_SECONDS):
            self._execute(
                "update servers set stderr = ?, error = iif(? = '', error, ?) where name = ?",
                *map(_storable_text, (stderr, error, error, server)),
            )

    def mark_stale(self, server: str) -> None:
        """Marks a server that announced changed tools, so that sync asks it again."""
        self._execute("update servers set evidence = '' where name = ?", server)

    def save_inferred_schema(self, server: str, tool: str, schema: Json) -> None:
        """Stores the schema of a tool's results. Raises CatalogBusy immediately while another process writes."""
        with self._transaction(0.0):
            self._execute(
                "update tools set inferred = ? where server = ? and name = ?",
                *(json.dumps(schema, separators=(",", ":")), server, tool),
            )

    def forget_server(self, server: str) -> None:
        """Removes a server. The pins of its tools are kept."""
        with self._transaction():
            self._execute("update tools set gone = 1, waiting = null where server = ?", server)
            self._execute("delete from servers where name = ?", server)

    def is_busy(self, seconds: float = _SHORT_WAIT_SECONDS) -> bool:
        """Whether another process is still writing to the catalog after `seconds`."""
        try:
            with self._transaction(seconds):
                return False
        except CatalogBusy:
            return True

    @contextmanager
    def _transaction(self, seconds: float = _BUSY_SECONDS) -> Generator[None]:
        """Runs the block atomically. Waits up to `seconds` for other processes."""
        with self._lock:
            self._begin(seconds)
            try:
                yield
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have already rolled it back
                    self._connection.execute("rollback")
                raise
            with translate_catalog_errors(self._path):
                self._connection.execute("commit")

    def _begin(self, seconds: float) -> None:
        set_timeout = "pragma busy_timeout = {:d}".format
        self._connection.execute(set_timeout(int(seconds * 1000)))
        try:
            self._connection.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                with translate_catalog_errors(self._path):
                    raise
            raise CatalogBusy(
                "Another process is writing to the catalog of tools.", hint="Try again in a moment.", retryable=True
            ) from None
        finally:
            self._connection.execute(set_timeout(int(_BUSY_SECONDS * 1000)))

    def _execute(self, statement: str, *values: object) -> None:
        with self._lock, translate_catalog_errors(self._path):
            self._connection.execute(statement, values)

    def _fetch_rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, translate_catalog_errors(self._path):
            return self._connection.execute(statement, values).fetchall()


def tool_fingerprint(schema: ToolSchema) -> str:
    """Returns a hash of a tool that does not depend on the order of its keys."""
    canonical = json.dumps(_schema_fields(schema), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(canonical.encode("ascii"), digest_size=16).hexdigest()


def _is_unchanged(before: Mapping[str, KnownTool], now: Sequence[ToolSchema]) -> bool:
    return list(before) == [schema.name for schema in now] and all(
        before[schema.name].pending is None and before[schema.name].fingerprint == tool_fingerprint(schema)
        for schema in now
    )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _storable_text(text: str) -> str:
    """Replaces lone surrogates, which JSON can represent and SQLite cannot store."""
    return text.encode("utf-8", "replace").decode()


def _schema_json(schema: ToolSchema) -> str:
    return json.dumps(_schema_fields(schema), separators=(",", ":"))


def _schema_fields(schema: ToolSchema) -> dict[str, Any]:
    """Like `asdict`, without copying nested values, which may be deep."""
    return {item.name: getattr(schema, item.name) for item in fields(schema)}


def _parse_schema(text: str) -> ToolSchema:
    return ToolSchema(**json.loads(text))


def _tool_from_row(server: str, row: tuple[Any, ...]) -> KnownTool:
    schema, print_, waiting, inferred = row
    learnt = cast("Json", json.loads(inferred)) if inferred else None
    return KnownTool(server, _parse_schema(schema), print_, _parse_schema(waiting) if waiting else None, learnt)


@contextmanager
def translate_catalog_errors(path: str) -> Generator[None]:
    """Raises errors of the disk or SQLite, and invalid rows, of the catalog at `path` as SystemFault."""
    try:
        yield
    except OSError as error:
        if (fault := fd_exhaustion_fault(error)) is not None:
            raise fault from error
        message = f"The catalog {path} cannot be used: {error.strerror}."
        raise SystemFault(message, hint="Free some space, or check the folder's permissions.") from error
    except sqlite3.Error as error:
        check_descriptors(error)
        why, hint = ("the disk is full", FREE_SPACE) if is_disk_full(error, path) else (str(error), _REBUILD)
        raise SystemFault(f"The catalog {path} cannot be used: {why}.", hint=hint) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise SystemFault(f"The catalog {path} is damaged: {error}.", hint=_REBUILD) from error


def set_aside(path: str) -> str | None:
    """Renames a database and its companion files. Returns the new name, or None if there is none."""
    new = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(path + end, new + end)
    return new if os.path.lexists(new) else None
