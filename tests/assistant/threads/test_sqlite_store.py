"""What is particular to threads in SQLite: the file, its privacy, expiry by the clock, damage, full disks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.descriptors import count_open
from tests.support.thread_store_suite.kit import LONG, nobody_waits, refused, texts, turn
from toolyard.assistant.threads.sqlite_store import FILE, LOCK_FILE, SqliteThreads
from toolyard.assistant.threads.store import ExpiredThread, ThreadLimits, UnknownThread
from toolyard.core.errors import SystemFault

DAY = 86_400.0
DEEP = "CAST(replace(hex(zeroblob(50000)), '00', '[[') || char(10) AS BLOB)"
SECRET = "the-secret-words-of-a-thread"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteThreads]:
    with SqliteThreads(str(tmp_path), ThreadLimits(30 * DAY, 100), clock) as store:
        yield store


def begun(store: SqliteThreads, text: str = "first") -> str:
    with store.turn(None, nobody_waits) as opened:
        opened.keep(turn(text))
    return opened.thread.id


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_nothing_is_made_before_a_turn_is_kept(store: SqliteThreads, tmp_path: Path) -> None:
    unknown = "0" * 32
    assert store.list() == store.ids_with_prefix("0") == store.search("words") == ()
    assert store.delete(unknown) is False
    assert isinstance(refused(lambda: store.read(unknown)), UnknownThread)
    assert isinstance(refused(lambda: store.turn(unknown, nobody_waits).__enter__()), UnknownThread)
    with store.turn(None, nobody_waits):
        pass
    assert os.listdir(tmp_path) == []


def test_the_files_are_for_their_owner_alone(store: SqliteThreads, tmp_path: Path) -> None:
    thread = begun(store)
    with store.turn(thread, nobody_waits):
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert {FILE, LOCK_FILE, f"{FILE}-wal"} <= modes.keys()
    assert set(modes.values()) == {"0o600"}


def test_a_turn_is_synced_to_the_disk_before_it_is_told_of(store: SqliteThreads) -> None:
    begun(store)
    connection = store._database._connection
    assert connection is not None
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_thread_expires_so_long_after_its_last_turn(store: SqliteThreads, clock: Clock) -> None:
    thread = begun(store)
    clock.now += 29 * DAY
    with store.turn(thread, nobody_waits) as opened:
        opened.keep(turn("second"))
    clock.now += 29 * DAY
    assert texts(store.read(thread)) == ["first", "second"]
    clock.now += DAY
    assert isinstance(refused(lambda: store.read(thread)), ExpiredThread)


def test_the_text_of_an_expired_thread_is_deleted_and_its_name_is_known_for_a_year(
    store: SqliteThreads, tmp_path: Path, clock: Clock
) -> None:
    thread = begun(store, SECRET)
    clock.now += 31 * DAY
    other = begun(store, "another")
    with store._database.read_transaction() as connection:
        assert connection is not None
        assert connection.execute("SELECT thread FROM turns").fetchall() == [(other,)]
    store.close()
    assert SECRET.encode() not in on_disk(tmp_path)
    clock.now += 364 * DAY
    with SqliteThreads(str(tmp_path), LONG, clock) as later:
        assert isinstance(refused(lambda: later.read(thread)), ExpiredThread)
    clock.now += 40 * DAY
    with SqliteThreads(str(tmp_path), LONG, clock) as much_later:
        assert isinstance(refused(lambda: much_later.read(thread)), UnknownThread)


def test_whoever_only_looks_deletes_by_the_terms_that_threads_were_kept_with(
    store: SqliteThreads, tmp_path: Path, clock: Clock
) -> None:
    thread = begun(store)
    clock.now += 20 * DAY
    with SqliteThreads(str(tmp_path), ThreadLimits(DAY, 1), clock) as other:
        assert [each.id for each in other.list()] == [thread]
    assert texts(store.read(thread)) == ["first"]


def test_nothing_of_a_deleted_thread_stays_in_the_files(store: SqliteThreads, tmp_path: Path) -> None:
    thread = begun(store, SECRET * 1_000)
    assert SECRET.encode() in on_disk(tmp_path)
    store.delete(thread)
    assert SECRET.encode() not in on_disk(tmp_path)


def test_turns_leave_no_file_open(store: SqliteThreads) -> None:
    thread = begun(store)
    before = count_open()
    for _ in range(10):
        with store.turn(thread, nobody_waits) as opened:
            opened.keep(turn("more"))
    assert count_open() == before


def test_threads_of_a_newer_toolyard_are_left_alone(store: SqliteThreads, tmp_path: Path) -> None:
    begun(store)
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with SqliteThreads(str(tmp_path), LONG) as again, pytest.raises(SystemFault, match="newer Toolyard"):
        again.list()


@pytest.mark.parametrize("damage", ["x'5b5d0a'", "'x'", "5", DEEP])
def test_a_damaged_turn_is_a_fault_that_says_where(store: SqliteThreads, tmp_path: Path, damage: str) -> None:
    thread = begun(store)
    with store._database.write_transaction() as connection:
        connection.execute(f"UPDATE turns SET turn = {damage}")
    with pytest.raises(SystemFault, match=f"{FILE} are damaged"):
        store.read(thread)


def test_a_file_that_is_no_database_is_a_fault_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("not a database " * 1_000)
    with SqliteThreads(str(tmp_path), LONG) as store, pytest.raises(SystemFault, match="are damaged"):
        begun(store)
    assert (tmp_path / FILE).read_text() == "not a database " * 1_000


def test_a_folder_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    with SqliteThreads(str(tmp_path / "gone"), LONG) as store:
        assert store.list() == ()
        with pytest.raises(SystemFault, match="cannot be used"):
            begun(store)


def test_after_the_end_nothing_is_opened_again(store: SqliteThreads) -> None:
    thread = begun(store)
    with store.turn(thread, nobody_waits) as opened:
        store.close()
        with pytest.raises(SystemFault, match="closed"):
            opened.keep(turn("late"))


def test_a_full_disk_is_told_and_keeps_what_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        with SqliteThreads(str(folder), LONG) as store:
            thread = begun(store)
            with store.turn(thread, nobody_waits) as opened:
                with pytest.raises(SystemFault, match="disk is full"):
                    opened.keep(turn("x" * 1_000_000))
                assert opened.keep(turn("small")) == 2  # the control: what there is room for
            assert texts(store.read(thread)) == ["first", "small"]
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
