"""Reads the local vector stores that mem0 supports, also while mem0 is using them.

    qdrant    <path>/collection/<name>/storage.sqlite    points, pickled (read as data, never executed)
    chroma    <path>/chroma.sqlite3                      metadata in tables
    faiss     <path>/<name>.json (or .pkl)               the payloads by id

Databases are opened read-only, nothing is ever written there, and the stores' packages are not needed. Internal
collections of mem0 (entities, telemetry) are skipped. A store may be untrusted: only regular files and real tables
are read, in bounded time and without temporary files of SQLite.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import cast
from urllib.parse import quote

from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB
from toolyard.memory.mem0.records import Mem0Memory, parse_record
from toolyard.memory.mem0.safe_unpickler import Placeholder, unpickle_safely

_BUSY_SECONDS = 10.0
_MOST_POINT_BYTES = 4 * MIB
_MOST_FILE_BYTES = 256 * MIB
_MOST_VALUE_BYTES = 4 * _MOST_POINT_BYTES
_MOST_MEMORIES = 200_000
_STEPS = 100_000
_MOST_STEPS = 10_000 * _STEPS
"""Steps of SQLite's virtual machine for one store: many times what the largest supported store needs."""
_MOST_SECONDS = 30.0
_INTERNAL_COLLECTIONS = ("mem0migrations",)
_ENTITY_SUFFIXES = ("_entities", "-entities")
_CHROMA_TABLES = ("collections", "segments", "embeddings", "embedding_metadata")
_VALUE_COLUMNS = ("string_value", "int_value", "float_value", "bool_value")

Rows = Iterator[tuple[object, object]]
"""Ids and payloads; a payload that cannot be read is None."""


@dataclass(frozen=True, slots=True)
class StoreContents:
    """The memories of one collection."""

    kind: str
    collection: str
    memories: tuple[Mem0Memory, ...]
    unreadable: int
    """Number of entries that are not memories or cannot be read."""

    def filter_by_session(self, **session: str) -> tuple[Mem0Memory, ...]:
        """Returns the memories of one user, agent or run: `filter_by_session(user_id="alice")`.

        Empty values are ignored.
        """
        wanted = {key: value for key, value in session.items() if value}.items()
        return tuple(memory for memory in self.memories if wanted <= memory.session.items())


def read_store(path: str, collection: str = "") -> StoreContents:
    """Reads every memory of a store; `collection` is needed only if there are several."""
    kind, collections = _detect_store(path)
    names = sorted(
        name for name in collections if name not in _INTERNAL_COLLECTIONS and not name.endswith(_ENTITY_SUFFIXES)
    )
    if collection and collection not in collections:
        raise ToolError(f"There is no collection {collection} in {path}.", hint=f"There is: {', '.join(names)}.")
    if not collection and len(names) != 1:
        contents = f"several collections: {', '.join(names)}" if names else "no collection of memories"
        raise ToolError(f"{path} holds {contents}.", hint="Name the collection.")
    chosen = collection or names[0]
    memories: dict[str, Mem0Memory] = {}
    unreadable = 0
    until = time.monotonic() + _MOST_SECONDS
    try:
        for identity, payload in collections[chosen]():
            if time.monotonic() > until:
                raise ValueError(f"reading takes longer than {_MOST_SECONDS:g} seconds")
            record = parse_record(identity, payload)
            if record is None:
                unreadable += 1
            else:
                memories[record.id] = record
            if max(len(memories), unreadable) > _MOST_MEMORIES:
                raise ToolError(f"{path} holds more than {_MOST_MEMORIES:,} memories.", hint="Split the store.")
    except (sqlite3.Error, OSError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The {kind} store {path} cannot be read: {error}.", hint="Check that mem0 itself can open it."
        ) from error
    ordered = sorted(memories.values(), key=lambda memory: (memory.created, memory.id))
    return StoreContents(kind, chosen, tuple(ordered), unreadable)


def _detect_store(path: str) -> tuple[str, dict[str, Callable[[], Rows]]]:
    """Returns the kind of the store, and a reader for each of its collections."""
    try:
        names = sorted(os.listdir(path))
        if "collection" in names:
            return "qdrant", _qdrant_collections(os.path.join(path, "collection"))
        if "chroma.sqlite3" in names:
            return "chroma", _chroma_collections(os.path.join(path, "chroma.sqlite3"))
    except (OSError, ValueError, sqlite3.Error) as error:
        raise ToolError(f"{path} cannot be read: {error}.", hint="Name the folder of the vector store.") from error
    stems = {name.removesuffix(".faiss") for name in names if name.endswith(".faiss")}
    if stems:
        return "faiss", {stem: lambda stem=stem: _faiss_rows(path, stem) for stem in stems}
    raise ToolError(
        f"{path} is not a local store of mem0: neither qdrant nor chroma nor faiss.",
        hint="Name the folder that `vector_store.config.path` of mem0's configuration names.",
    )


def _open_database(path: str, *tables: str) -> sqlite3.Connection:
    """Opens a database read-only and with limits.

    What looks like a table may be an endless query, or produce huge values.
    """
    for end in ("", "-wal", "-shm", "-journal"):  # opening a pipe would block until a writer opens it
        if os.path.lexists(path + end) and not os.path.isfile(path + end):
            raise ValueError(f"{os.path.basename(path + end)} is not a regular file")
    database = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
    steps, until = count(0, _STEPS), time.monotonic() + _MOST_SECONDS
    database.set_progress_handler(lambda: next(steps) > _MOST_STEPS or time.monotonic() > until, _STEPS)
    try:
        for pragma in ("trusted_schema = OFF", "automatic_index = OFF", "temp_store = MEMORY"):
            database.execute(f"PRAGMA {pragma}")
        for table in tables:
            rows = database.execute("SELECT type FROM pragma_table_list(?) WHERE schema = 'main'", (table,))
            if rows.fetchall() != [("table",)]:  # a view, or a virtual table
                raise ValueError(f"{table} is not a table")
    except BaseException:
        database.close()
        raise
    return database


def _qdrant_collections(folder: str) -> dict[str, Callable[[], Rows]]:
    names = [name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, "storage.sqlite"))]
    return {name: lambda name=name: _qdrant_rows(os.path.join(folder, name, "storage.sqlite")) for name in names}


def _qdrant_rows(path: str) -> Rows:
    with contextlib.closing(_open_database(path, "points")) as database:
        # Older versions left two rows for one point; the later one is current.
        for size, blob in database.execute(
            "SELECT length(point), CASE WHEN length(point) <= ? THEN point END FROM points ORDER BY rowid",
            (_MOST_POINT_BYTES,),
        ):
            if not isinstance(blob, bytes) or not size:
                yield None, None
                continue
            try:
                point = unpickle_safely(blob)
            except ValueError:
                yield None, None
                continue
            fields = point.fields if isinstance(point, Placeholder) else {}
            yield fields.get("id"), fields.get("payload")


def _chroma_collections(path: str) -> dict[str, Callable[[], Rows]]:
    with contextlib.closing(_open_database(path, "collections")) as database:
        names = [str(name) for (name,) in database.execute("SELECT name FROM collections")]
    return {name: lambda name=name: _chroma_rows(path, name) for name in names}


def _chroma_rows(path: str, collection: str) -> Rows:
    query = f"""
        SELECT embeddings.embedding_id, held.key, {", ".join(f"held.{column}" for column in _VALUE_COLUMNS)}
        FROM collections
        JOIN segments ON segments.collection = collections.id
        JOIN embeddings ON embeddings.segment_id = segments.id
        LEFT JOIN embedding_metadata AS held ON held.id = embeddings.id
        WHERE collections.name = ?
    """  # noqa: S608 - made of constants
    with contextlib.closing(_open_database(path, *_CHROMA_TABLES)) as database:
        held: dict[str, dict[str, object]] = {}
        read = 0
        for identity, key, text, integer, real, boolean in database.execute(query, (collection,)):
            payload = held.setdefault(str(identity), {})
            read += len(text) if isinstance(text, (str, bytes)) else 0
            if read > _MOST_FILE_BYTES or len(held) > _MOST_MEMORIES:
                raise ValueError(f"it holds more than {_MOST_MEMORIES:,} memories, or {_MOST_FILE_BYTES:,} bytes")
            if key is not None:
                values = (bool(boolean) if boolean is not None else None, text, integer, real)
                payload[str(key)] = next((value for value in values if value is not None), None)
    yield from held.items()


def _faiss_rows(path: str, stem: str) -> Rows:
    name = os.path.join(path, stem)
    if os.path.exists(f"{name}.json"):
        data = json.loads(_read_whole_file(f"{name}.json"))
        payloads = data.get("docstore") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    else:
        pickled = unpickle_safely(_read_whole_file(f"{name}.pkl"))
        payloads = pickled[0] if isinstance(pickled, tuple) and pickled else None  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(payloads, dict):
        raise ValueError("it holds no memories")  # noqa: TRY004 - about the file, not an argument
    yield from cast("dict[object, object]", payloads).items()


def _read_whole_file(path: str) -> bytes:
    if not os.path.isfile(path):
        raise ValueError(f"{os.path.basename(path)} is not a regular file")
    with open(path, "rb") as file:
        data = file.read(_MOST_FILE_BYTES + 1)
    if len(data) > _MOST_FILE_BYTES:
        raise ValueError(f"it is larger than {_MOST_FILE_BYTES:,} bytes")
    return data
