"""What is particular to a cache in SQLite: what stays, what is shared, its privacy, damage, full disks."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.barrier import together
from tests.support.descriptors import count_open
from tests.support.file_cache_suite.kit import START, Clock, batch, kept
from toolyard.bridge import sqlite_store
from toolyard.bridge.cache import CachedFile, CacheStatistics, FileCache, NewFile
from toolyard.bridge.sqlite_store import SqliteStore
from toolyard.core.errors import SystemFault

FILE = "cache.sqlite3"
SECRET = b"the-secret-words-of-a-file"
PATIENCE_SECONDS = 30.0
CONTENDS = """
import random, sys
from toolyard.bridge.cache import FileCache, NewFile
path, seed = sys.argv[1:]
chosen = random.Random(seed)
print("ready", flush=True)
sys.stdin.readline()
with FileCache.in_sqlite(path, 400, max_entries=30) as cache:
    for _ in range(40):
        new = [NewFile(f"{chosen.randrange(50)}", b"") for _ in range(1)]
        new.append(NewFile(f"x{chosen.randrange(50)}", seed.encode() * chosen.randrange(60)))
        cache.put_all(new)
        cache.get(f"x{chosen.randrange(50)}")
        told = cache.statistics
        assert told.bytes <= 400 and told.entries <= 30, told
print("done", flush=True)
"""
PUTS_BATCHES = """
import itertools, sys
from toolyard.bridge.cache import FileCache, NewFile
cache = FileCache.in_sqlite(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in itertools.count():
    cache.put_all([NewFile(f"{each}", f"{number} ".encode() * 500) for each in range(20)])
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE


@pytest.fixture
def cache(path: Path) -> Iterator[FileCache]:
    with FileCache.in_sqlite(path) as cache:
        yield cache


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def change(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def test_what_was_kept_is_there_after_a_restart_in_its_order(path: Path) -> None:
    clock = Clock()
    with FileCache.in_sqlite(path, 4, clock=clock) as first:
        first.put_all(batch({"a": 1, "b": 1, "c": 1}))
        put = first.put("d", b"4", mtime=1.5, encoding="koi8-r", is_binary=True, client="one")
        first.get("a")
    clock.now += 5
    with FileCache.in_sqlite(path, 4, clock=clock) as again:
        assert again.statistics == CacheStatistics(4, 4, 0, 0, 0, 0, 0)
        assert again.peek("d", client="one") == put == CachedFile("d", b"4", 1, 1.5, "koi8-r", True, START)
        again.put("e", b"x")
        assert kept(again) == "ace"


def test_whoever_opens_it_with_smaller_limits_holds_it_to_them_at_once(path: Path) -> None:
    clock = Clock()
    with FileCache.in_sqlite(path, clock=clock) as large:
        large.put_all(batch(dict.fromkeys("abcdef", 10)))
        large.get("a")
    with FileCache.in_sqlite(path, 35, clock=clock) as small:
        assert (kept(small), small.statistics.evictions) == ("aef", 3)
    with FileCache.in_sqlite(path, max_entries=2, clock=clock) as few:
        assert kept(few) == "af"


def test_two_caches_on_one_file_are_one(path: Path, cache: FileCache) -> None:
    with FileCache.in_sqlite(path, 20) as other:
        put = other.put("a", b"x" * 10)
        assert cache.get("a") == put
        other.put("b", b"x" * 10)
        cache.get("a")
        other.put("c", b"x" * 10)
        assert kept(cache) == kept(other) == "ac"
        assert cache.drop_if_older("a", 1e10) is True
        assert other.get("a") is None
    assert (cache.statistics.hits, cache.statistics.misses, cache.statistics.evictions) == (2, 0, 0)


def test_processes_that_open_it_at_the_same_time_keep_to_the_limit_together(path: Path) -> None:
    with together(CONTENDS, [(str(path), str(number)) for number in range(2)]) as running:
        said = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in running]
    assert said == ["done\n"] * 2
    with FileCache.in_sqlite(path) as cache:
        names = [*map(str, range(50)), *(f"x{number}" for number in range(50))]
        files = [file for name in names if (file := cache.peek(name)) is not None]
        assert cache.statistics == CacheStatistics(len(files), sum(file.size for file in files), 0, 0, 0, 0, 0)
        assert 0 < len(files) <= 30


def test_one_that_somebody_else_makes_meanwhile_is_not_taken_for_something_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, asked = SqliteStore._fetch_row, list[str]()

    def row_and_more(store: SqliteStore, query: str, values: tuple[object, ...] = ()) -> object:
        found = row(store, query, values)
        asked.append(query)
        if len(asked) == 1:
            with contextlib.suppress(SystemFault):  # or it has to wait until we have looked
                FileCache.in_sqlite(path).close()
        return found

    monkeypatch.setattr(sqlite_store, "_BUSY_SECONDS", 0.05)
    monkeypatch.setattr(SqliteStore, "_fetch_row", row_and_more)
    with FileCache.in_sqlite(path) as cache:
        assert cache.put("a", b"x") == cache.get("a")


def test_of_a_process_killed_at_any_moment_there_is_the_whole_batch_or_nothing(path: Path) -> None:
    with together(PUTS_BATCHES, [(str(path),)]) as (process,):
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(random.Random(3).randint(3, 9))]
        process.kill()
        process.wait()
        told += [int(line) for line in process.stdout]
    with FileCache.in_sqlite(path) as cache:
        found = {file.content.split()[0] for each in range(20) if (file := cache.get(str(each))) is not None}
        assert len(found) == 1
        assert int(found.pop()) in {told[-1], told[-1] + 1}  # what was under way may be there
        assert cache.statistics.hits == 20


def test_the_files_are_for_their_owner_alone(tmp_path: Path, path: Path) -> None:
    before = os.umask(0)
    try:
        with FileCache.in_sqlite(path) as cache:
            cache.put("a", b"x")
            modes = {each.name: oct(each.stat().st_mode & 0o777) for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys((FILE, f"{FILE}-wal", f"{FILE}-shm"), "0o600")


def test_of_what_is_removed_nothing_stays_in_the_files(tmp_path: Path, cache: FileCache) -> None:
    for drop in (lambda: cache.remove("a"), cache.clear, lambda: cache.clear(client="")):
        cache.put_all([NewFile("a", SECRET * 1_000), NewFile("b", SECRET)])
        assert SECRET in on_disk(tmp_path)
        drop()
        cache.remove("b")
        assert SECRET not in on_disk(tmp_path)


def test_of_what_made_room_nothing_stays_once_it_is_closed(tmp_path: Path, path: Path) -> None:
    with FileCache.in_sqlite(path, 100) as cache:
        cache.put("a", SECRET)
        cache.put("a", SECRET[:10])
        cache.put("b", SECRET)
        cache.put("c", b"x" * 100)
    assert SECRET not in on_disk(tmp_path)


def test_nothing_stays_open(path: Path) -> None:
    before = count_open()
    with FileCache.in_sqlite(path) as cache:
        cache.put("a", b"x")
    with pytest.raises(ValueError, match="a cache needs"):
        FileCache.in_sqlite(path, -1)
    change(path, "PRAGMA user_version = 99")
    with pytest.raises(SystemFault):
        FileCache.in_sqlite(path)
    assert count_open() == before


def test_a_file_named_from_a_folder_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a #?%41 folder"
    odd.mkdir()
    monkeypatch.chdir(odd)
    with FileCache.in_sqlite("c%20?.db") as cache:
        monkeypatch.chdir("/")
        cache.put("a", b"x")
    assert (os.listdir(tmp_path), os.listdir(odd)) == ([odd.name], ["c%20?.db"])
    with FileCache.in_sqlite(odd / "c%20?.db") as again:
        assert kept(again) == "a"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE contents SET content = x'00' WHERE content = x'616263'",
        "UPDATE contents SET content = 'abd'",
        "UPDATE contents SET content = 5",
        "DELETE FROM contents",
        "UPDATE files SET mtime = mtime + 1",
        "UPDATE files SET mtime = NULL",
        "UPDATE files SET mtime = 'soon'",
        "UPDATE files SET encoding = CAST(x'c3ff' AS TEXT)",
        "UPDATE files SET is_binary = 1",
        "UPDATE files SET stored = stored + 1",
        "UPDATE files SET stored = 'once'",
        "UPDATE files SET digest = zeroblob(32)",
        "UPDATE files SET path = x'62'",
        "UPDATE files SET client = x'62'",
    ],
)
def test_what_fails_its_check_is_a_miss_and_dropped(path: Path, cache: FileCache, damage: str) -> None:
    cache.put("a", b"abc", mtime=1.0)
    change(path, damage)
    assert cache.peek("a") is cache.peek("b") is None
    assert cache.get("a") is None
    assert [cache.get(name, client=client) for name in ("a", "b") for client in ("", "b")] == [None] * 4
    assert cache.statistics == CacheStatistics(0, 0, 0, 5, 0, 0, 0)
    assert cache.put("a", b"anew") == cache.get("a")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE total SET bytes = 1000000000, entries = 5",
        "DELETE FROM total",
        "UPDATE total SET bytes = -1000",
        "UPDATE files SET client = 'x', path = path || x'ff', stored = x'00', used = 'x'",
    ],
)
def test_room_is_made_whatever_is_written_of_it(path: Path, damage: str) -> None:
    with FileCache.in_sqlite(path, 100) as cache:
        cache.put_all(batch({"a": 40, "b": 40}))
        change(path, damage)
        cache.put("c", b"x" * 30)
    with FileCache.in_sqlite(path, 100) as again:
        again.put("d", b"x" * 100)
        assert (kept(again), again.statistics.entries, again.statistics.bytes) == ("d", 1, 100)


def test_whatever_bytes_of_the_file_are_lost_no_content_is_wrong(tmp_path: Path, path: Path) -> None:
    contents = {f"file {number}": bytes([number]) * number * 100 for number in range(40)}
    with FileCache.in_sqlite(path) as cache:
        cache.put_all([NewFile(name, content) for name, content in contents.items()])
    whole, outcomes = path.read_bytes(), set[str]()
    for seed in range(25):
        chosen, damaged = random.Random(seed), bytearray(whole)
        for _ in range(chosen.randint(1, 30)):
            begin = chosen.randrange(100, len(whole))
            damaged[begin : begin + chosen.randint(1, 50)] = chosen.randbytes(chosen.randint(1, 50))
        for old in tmp_path.iterdir():
            old.unlink()
        path.write_bytes(damaged)
        with contextlib.suppress(SystemFault), FileCache.in_sqlite(path) as cache:
            for name, content in contents.items():
                try:
                    found = cache.get(name)
                except SystemFault as fault:
                    outcomes.add("fault")
                    assert "is damaged" in fault.message or "cannot be used" in fault.message
                else:
                    outcomes.add("miss" if found is None else "hit")
                    assert found is None or found.content == content
    assert outcomes == {"hit", "miss", "fault"}


def test_a_cache_of_a_newer_toolyard_is_left_alone(path: Path) -> None:
    FileCache.in_sqlite(path).close()
    change(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(SystemFault, match="newer version of Toolyard"):
        FileCache.in_sqlite(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (a)", "PRAGMA user_version = 1"])
def test_a_database_of_something_else_is_left_alone(tmp_path: Path, path: Path, statement: str) -> None:
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(SystemFault, match="another program's database"):
        FileCache.in_sqlite(path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, [FILE])


def test_a_file_that_is_no_database_is_a_fault_and_stays_as_it_is(path: Path) -> None:
    path.write_text("not a database " * 1_000)
    with pytest.raises(SystemFault, match="is damaged") as raised:
        FileCache.in_sqlite(path)
    assert "Delete the file" in raised.value.hint
    assert path.read_text() == "not a database " * 1_000


def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SystemFault, match="cannot be used"):
        FileCache.in_sqlite(tmp_path / "gone" / FILE)


def test_while_somebody_else_keeps_it_locked_nothing_is_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_BUSY_SECONDS", 0.05)
    with FileCache.in_sqlite(path) as cache:
        cache.put("a", b"x")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for work in (lambda: cache.get("a"), lambda: cache.put("b", b"")):
                with pytest.raises(SystemFault, match="locked") as raised:
                    work()
                assert raised.value.retryable
            assert kept(cache) == "a"  # those who only look need not wait
            assert cache.statistics == CacheStatistics(1, 1, 0, 0, 0, 0, 0)
        assert cache.get("a") is not None


def test_a_full_disk_is_told_and_keeps_what_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        with FileCache.in_sqlite(folder / FILE, 1_000_000) as cache:
            put = cache.put("a", b"first")
            with pytest.raises(SystemFault, match="disk is full"):
                cache.put("b", b"x" * 1_000_000)  # for which the first would have gone
            assert (cache.get("a"), cache.get("b")) == (put, None)
            cache.put("c", b"small")  # the control: what there is room for
            assert cache.statistics == CacheStatistics(2, 10, 1, 1, 0, 0, 0)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_what_does_not_go_out_of_it_is_damage_and_nobody_waits_for_ever(tmp_path):
    path = tmp_path / "cache.sqlite3"
    with FileCache.in_sqlite(path, 10) as cache:
        cache.put("a", b"12345")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER stays BEFORE DELETE ON files BEGIN SELECT RAISE(IGNORE); END")
    connection.close()
    with FileCache.in_sqlite(path, 10) as cache, pytest.raises(SystemFault, match="damaged"):
        cache.put("b", b"1234567")
