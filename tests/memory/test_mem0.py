"""Stores of mem0 are read as data, whatever is in them, and imported once.

The stores in `data/` were made by the real mem0; `tests/e2e/memory` makes fresh ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ToolError
from toolyard.files.roots import Root
from toolyard.memory import Memory
from toolyard.memory.mem0 import Mem0Memory, import_mem0, read_store, stores
from toolyard.memory.mem0.records import parse_record
from toolyard.memory.mem0.safe_unpickler import Placeholder, unpickle_safely

DATA = Path(__file__).parent / "data"
RECORD = Mem0Memory(
    "1", "Likes tea", "h", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00", {"user_id": "u"}, {}
)


@pytest.fixture
def memory(root: Root) -> Memory:
    return Memory(root, "a")


@pytest.mark.parametrize("kind", ["qdrant", "faiss"])
def test_a_store_that_mem0_made_is_read(kind: str) -> None:
    found = read_store(str(DATA / kind))
    assert (found.kind, found.collection, found.unreadable) == (kind, "mem0", 0)
    assert [(memory.text, dict(memory.session)) for memory in found.memories] == [
        ("Likes PostgreSQL more than MySQL", {"user_id": "alice", "agent_id": "agent_a", "role": "user"}),
        ("My cat is called Ünal 🐈", {"user_id": "alice", "run_id": "r1", "role": "user"}),
        ("Noted.", {"user_id": "alice", "run_id": "r1", "role": "assistant"}),
        ("New text", {"user_id": "bob", "role": "user"}),
    ]
    assert found.memories[0].metadata == {"topic": "databases", "n": 3}
    assert found.memories[3].created < found.memories[3].updated


def test_memories_of_one_user_or_agent_are_chosen() -> None:
    found = read_store(str(DATA / "qdrant"))
    assert [memory.text for memory in found.filter_by_session(user_id="bob")] == ["New text"]
    assert len(found.filter_by_session(user_id="alice", agent_id="agent_a", run_id="")) == 1
    assert found.filter_by_session() == found.memories
    assert found.filter_by_session(user_id="nobody") == ()


class Evil:
    def __init__(self, act: Callable, *arguments: object) -> None:
        self.act, self.arguments = act, arguments

    def __reduce__(self) -> tuple:
        return self.act, self.arguments


def qdrant(folder: Path, points: list[bytes], name: str = "mem0") -> Path:
    place = folder / "collection" / name
    place.mkdir(parents=True)
    with sqlite3.connect(place / "storage.sqlite") as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.executemany("INSERT INTO points VALUES (?, ?)", list(enumerate(points)))
    database.close()
    return folder


def test_nothing_in_a_store_is_ever_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    evil = pickle.dumps(
        {"x": Evil(os.system, f"touch {mark}"), "y": Evil(os.mkdir, str(mark)), "z": Evil(eval, "1/0")}
    )
    read = unpickle_safely(evil)
    assert isinstance(read, dict)
    assert all(isinstance(value, Placeholder) for value in read.values())
    huge_table = b"\x80\x04Nr\xff\xff\xff\x7f."
    contents = read_store(
        str(qdrant(tmp_path / "q", [evil, huge_table, b"", b"nonsense", b"cos\nsystem\n(S'x'\ntR."]))
    )
    assert (contents.memories, contents.unreadable) == ((), 5)
    assert not mark.exists()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_refusal(data: bytes) -> None:
    try:
        unpickle_safely(data)
    except ValueError:
        return


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES, st.integers(3, 5))
def test_plain_values_are_read_as_pickle_reads_them(value: object, protocol: int) -> None:
    assert unpickle_safely(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("count", [1, 2, 1_536, 2_047, 2_048, 2_049, 2_050, 20_000])
def test_vectors_of_any_length_are_read_as_pickle_reads_them(count: int, protocol: int) -> None:
    vector = {"vector": [number / 7 for number in range(count)], "after": [0.5, "x", 1.5]}
    assert unpickle_safely(pickle.dumps(vector, protocol)) == vector


def test_values_that_json_has_no_word_for_become_text_or_nothing() -> None:
    loop: list = []
    loop.append(loop)
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    payload = {
        "data": "x",
        "created_at": moment,
        "when": moment,
        "set": {1},
        "loop": loop,
        "odd": Placeholder(),
        "inf": 1e999,
    }
    record = parse_record("1", payload)
    assert record is not None
    assert record.created == moment.isoformat()
    assert record.metadata["when"] == moment.isoformat()
    assert record.metadata["set"] == [1]
    assert record.metadata["inf"] == "inf"
    json.dumps(dict(record.metadata), allow_nan=False)


@pytest.mark.parametrize("payload", [None, [], {}, {"data": ""}, {"data": 3}, {"text": "x"}])
def test_what_has_no_text_is_no_memory(payload: object) -> None:
    assert parse_record("1", payload) is None


def test_an_old_store_of_faiss_is_read(tmp_path: Path) -> None:
    (tmp_path / "mem0.faiss").write_bytes(b"")
    (tmp_path / "mem0.pkl").write_bytes(pickle.dumps(({"1": {"data": "x", "user_id": "u"}}, {0: "1"})))
    assert [memory.text for memory in read_store(str(tmp_path)).memories] == ["x"]
    (tmp_path / "mem0.pkl").write_bytes(pickle.dumps([]))
    with pytest.raises(ToolError, match=r"cannot be read: it holds no memories"):
        read_store(str(tmp_path))


def test_a_store_of_chroma_is_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "chroma.sqlite3") as database:
        database.executescript(
            """
            CREATE TABLE collections (id TEXT, name TEXT);
            CREATE TABLE segments (id TEXT, scope TEXT, collection TEXT);
            CREATE TABLE embeddings (id INTEGER, segment_id TEXT, embedding_id TEXT);
            CREATE TABLE embedding_metadata
                (id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER);
            INSERT INTO collections VALUES ('c', 'mem0'), ('d', 'mem0-entities');
            INSERT INTO segments VALUES ('s', 'METADATA', 'c'), ('t', 'METADATA', 'd'), ('v', 'VECTOR', 'c');
            INSERT INTO embeddings VALUES (1, 's', 'one'), (2, 't', 'entity'), (3, 's', 'empty');
            INSERT INTO embedding_metadata VALUES
                (1, 'data', 'x', NULL, NULL, NULL), (1, 'n', NULL, 3, NULL, NULL),
                (1, 'f', NULL, NULL, 0.5, NULL), (1, 'b', NULL, NULL, NULL, 0), (2, 'data', 'Oslo', NULL, NULL, NULL);
            """
        )
    database.close()
    found = read_store(str(tmp_path))
    assert [(memory.id, memory.text, memory.metadata) for memory in found.memories] == [
        ("one", "x", {"n": 3, "f": 0.5, "b": False})
    ]
    assert found.unreadable == 1


@pytest.mark.parametrize(
    "points",
    [
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x AS rowid, x AS point FROM r",
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x rowid, x point FROM r WHERE x < 0",
        "SELECT 1 AS rowid, randomblob(500000000) AS point",
    ],
    ids=["rows without end", "no row and no end", "a value of any size"],
)
def test_a_store_that_is_a_query_without_bounds_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: str
) -> None:
    monkeypatch.setattr(stores, "_MOST_STEPS", 3_000_000)
    monkeypatch.setattr(stores, "_MOST_MEMORIES", 1_000)
    folder = tmp_path / "collection/memories"
    folder.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(folder / "storage.sqlite")) as database:
        database.execute(f"CREATE VIEW points AS {points}")
        database.commit()
    with pytest.raises(ToolError, match=r"cannot be read|holds more than"):
        read_store(str(tmp_path))


@pytest.mark.parametrize("table", ["collections", "segments", "embeddings", "embedding_metadata"])
def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path, table: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "chroma.sqlite3")) as database:
        database.executescript(
            """
            CREATE TABLE collections (id, name); INSERT INTO collections VALUES (1, 'memories');
            CREATE TABLE segments (id, collection); INSERT INTO segments VALUES (1, 1);
            CREATE TABLE embeddings (id, segment_id, embedding_id); INSERT INTO embeddings VALUES (1, 1, 'one');
            CREATE TABLE embedding_metadata (id, key, string_value, int_value, float_value, bool_value);
            """
        )
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"
        shown = ", ".join(f"hex(zeroblob(1000000)) AS {name}" for name in columns)
        database.executescript(f"DROP TABLE {table}; CREATE VIEW {table} AS {endless} SELECT {shown} FROM r;")
    with pytest.raises(ToolError, match=f"{table} is not a table"):
        read_store(str(tmp_path))


@pytest.mark.parametrize(
    "name", ["chroma.sqlite3", "chroma.sqlite3-journal", "chroma.sqlite3-wal", "x.json", "x.pkl"]
)
def test_a_named_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    if name.startswith("chroma"):
        with contextlib.closing(sqlite3.connect(tmp_path / "chroma.sqlite3")) as database:
            database.execute("CREATE TABLE collections (id, name)")
    else:
        (tmp_path / "x.faiss").touch()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(ToolError, match="is not a regular file"):
        read_store(str(tmp_path))


def test_rows_that_take_long_to_make_are_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_SECONDS", 0.2)
    folder = tmp_path / "collection/memories"
    folder.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(folder / "storage.sqlite")) as database:
        database.execute("CREATE TABLE points (id, point AS (hex(zeroblob(1000000))))")
        database.executemany("INSERT INTO points (id) VALUES (?)", ((number,) for number in range(300)))
        database.commit()
    with pytest.raises(ToolError, match=r"longer than 0\.2 seconds|interrupted"):
        read_store(str(tmp_path))


def test_a_query_that_takes_too_many_steps_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_STEPS", 10)
    monkeypatch.setattr(stores, "_MOST_STEPS", 1_000)
    folder = tmp_path / "collection/memories"
    folder.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(folder / "storage.sqlite")) as database:
        database.execute("CREATE TABLE points (id, point)")
        database.executemany("INSERT INTO points VALUES (?, ?)", ((number, b"") for number in range(1_000)))
        database.commit()
    with pytest.raises(ToolError, match="interrupted"):
        read_store(str(tmp_path))


def test_what_is_no_store_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read"):
        read_store(str(tmp_path / "nowhere"))
    with pytest.raises(ToolError, match=r"not a local store of mem0.*vector_store.config.path"):
        read_store(str(tmp_path))
    (tmp_path / "chroma.sqlite3").write_bytes(b"no database at all" * 100)
    with pytest.raises(ToolError, match="cannot be read"):
        read_store(str(tmp_path))


def test_of_several_collections_one_has_to_be_named(tmp_path: Path) -> None:
    for name in ("one", "two", "mem0migrations", "one_entities"):
        qdrant(tmp_path, [], name)
    with pytest.raises(ToolError, match=r"several collections: one, two\. Name the collection"):
        read_store(str(tmp_path))
    with pytest.raises(ToolError, match=r"no collection three.*There is: one, two"):
        read_store(str(tmp_path), "three")
    assert read_store(str(tmp_path), "two").collection == "two"


def test_an_import_brings_everything_that_mem0_knew(memory: Memory) -> None:
    done = import_mem0(memory, read_store(str(DATA / "qdrant")).memories)
    assert (done.added, done.updated, done.unchanged, done.forgotten, done.refused) == (4, 0, 0, 0, [])
    fact = memory.facts()[0]
    assert fact.topic == "databases"
    assert fact.created_at.startswith("2026-11-16T07:13:50")
    assert fact.metadata == {"topic": "databases", "n": 3}
    assert {"from": "mem0", "user_id": "alice", "agent_id": "agent_a"}.items() <= fact.source.items()
    assert fact.id == f"mem0-{fact.source['id']}"


def test_an_import_is_repeated_without_doubling_or_overriding(memory: Memory, tmp_path: Path) -> None:
    memory.remember("mine")
    other = replace(RECORD, id="2", text="Likes cake")
    import_mem0(memory, [RECORD, other])
    file = tmp_path / "agents/a/memory/core_memories.json"
    before = file.read_bytes()
    again = import_mem0(memory, [RECORD, other])
    assert (again.added, again.unchanged) == (0, 2)
    assert file.read_bytes() == before
    file.write_text(file.read_text().replace("Likes cake", "Likes all cakes"))
    later = "2026-02-01T00:00:00+00:00"
    changed = [replace(RECORD, text="Likes coffee", updated=later), replace(other, text="Hates cake", updated=later)]
    done = import_mem0(memory, changed)
    assert (done.updated, done.kept) == (1, 1)
    assert [fact.text for fact in memory.facts()] == ["mine", "Likes coffee", "Likes all cakes"]
    memory.forget("mem0-1")
    assert import_mem0(memory, changed).forgotten == 1
    assert [fact.text for fact in memory.facts()] == ["mine", "Likes all cakes"]


def test_an_import_that_was_killed_before_its_end_doubles_nothing(memory: Memory, tmp_path: Path) -> None:
    import_mem0(memory, [RECORD])
    (tmp_path / "agents/a/memory/.imports.json").unlink()
    assert import_mem0(memory, [RECORD]).unchanged == 1
    assert len(memory.facts()) == 1
    assert (tmp_path / "agents/a/memory/.imports.json").exists()


def test_what_is_too_long_to_be_a_fact_is_named(memory: Memory) -> None:
    done = import_mem0(memory, [replace(RECORD, text="x" * 30_000), replace(RECORD, id="2")])
    assert (done.added, done.refused) == (1, ["1"])


def test_facts_that_cannot_be_read_are_not_overwritten_by_an_import(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "agents/a/memory/core_memories.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    with pytest.raises(ToolError, match="left unchanged"):
        import_mem0(memory, [RECORD])
    assert file.read_text() == "{"
