"""What a snapshot holds, and what it costs to take one."""

import contextlib
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading

import pytest

from toolyard.core.errors import SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.files import root_folder as folders
from toolyard.snapshots import Counts, EntryKind, PathNote, SnapshotStore
from toolyard.snapshots import snapshot_store as store
from toolyard.snapshots.archive import file_reader, stat_cache, walker
from toolyard.snapshots.snapshot_store import StoreOptions


def test_a_snapshot_holds_files_links_modes_and_empty_folders(place):
    place.write("a/one.txt", "one\n", 0o640)
    place.write("a/run", "#!/bin/sh\n", 0o755)
    (place.root / "empty").mkdir(mode=0o711)
    os.symlink("nowhere/at/all", place.root / "dangling")
    os.symlink("loop", place.root / "loop")

    snapshot = place.take(agent="ada", reason="a try").snapshot

    assert (snapshot.agent, snapshot.reason, snapshot.parent) == ("ada", "a try", None)
    assert snapshot.root == str(place.root)
    assert snapshot.counts == Counts(files=2, folders=2, links=2, size=14)
    assert place.store.list() == [snapshot]
    shown = {entry.name: entry for entry in place.store.show(snapshot.id)}
    assert {name: entry.kind for name, entry in shown.items()} == {
        b"a": EntryKind.FOLDER,
        b"empty": EntryKind.FOLDER,
        b"dangling": EntryKind.LINK,
        b"loop": EntryKind.LINK,
    }
    assert shown[b"dangling"].ref == b"nowhere/at/all"
    assert shown[b"empty"].mode == 0o711
    assert [entry.mode for entry in place.store.show(snapshot.id, "a")] == [0o640, 0o755]
    assert place.store.read(snapshot.id, "a/one.txt") == b"one\n"
    assert place.store.read(snapshot.id, "a/one.txt", limit=2) == b"on"


def test_names_that_are_not_utf8_are_kept_as_they_are(place):
    place.write(b"\xff\xfe/na\nme\x80", b"odd")
    snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, b"\xff\xfe/na\nme\x80") == b"odd"


def test_links_that_lead_round_in_circles_are_kept_as_links(place):
    os.mkdir(place.root / "d")
    for name, target in (("self", "self"), ("a", "b"), ("b", "a"), ("d/up", ".."), ("d/here", "."), ("d/root", "/")):
        os.symlink(target, place.root / name)
    taken, before = place.take().snapshot, place.picture()
    assert (taken.counts.links, taken.counts.folders, taken.counts.skipped) == (6, 1, 0)
    for name in ("self", "a", "d/up"):
        os.unlink(place.root / name)
    assert place.store.restore(taken.id).failed == ()
    assert place.picture() == before


def test_a_nested_repository_is_kept_whole(place):
    subprocess.run(["git", "init", "-q", str(place.root / "inner")], check=True)
    place.write("inner/file", "x")
    snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "inner/.git/HEAD").startswith(b"ref:")


def test_what_has_no_content_is_skipped_and_noted(place):
    os.mkfifo(place.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(place.root)  # the path of a socket is short
        server.bind("socket")
        os.chdir("/")
    place.write("file", "x")
    for _ in range(3):  # the last comes from what was seen, and must say so too
        snapshot = place.take().snapshot
        assert snapshot.notes == (PathNote(b"pipe", "a named pipe"), PathNote(b"socket", "a socket"))
        assert (snapshot.counts.skipped, snapshot.counts.files) == (2, 1)
        place.settle()


AS_NOBODY = """
import os, sys
from toolyard.snapshots import SnapshotStore
os.setgid(65534); os.setuid(65534)
with SnapshotStore(sys.argv[2]) as store:
    for note in store.create(sys.argv[1]).snapshot.notes:
        print(os.fsdecode(note.path), note.why, sep="|")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_read_is_noted_and_the_rest_is_held():
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        os.makedirs(f"{base}/root/closed")
        for name, mode in (("open", 0o644), ("secret", 0o600)):
            with open(f"{base}/root/{name}", "w") as file:
                file.write(name)
            os.chmod(f"{base}/root/{name}", mode)
        os.chmod(f"{base}/root/closed", 0o700)
        os.mkdir(f"{base}/state", 0o700)
        os.chown(f"{base}/state", 65534, 65534)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, f"{base}/root", f"{base}/state/s"],
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )
    assert done.stdout.splitlines() == ["closed|it may not be read", "secret|it may not be read"], done.stderr


@pytest.mark.parametrize("at_once", [1_000, 1])
def test_an_unchanged_folder_costs_no_reading_and_no_object(place, monkeypatch, at_once):
    monkeypatch.setattr(store, "_MAX_PRELOADED_PAGES", at_once)
    for number in range(50):
        place.write(f"d{number % 5}/f{number}", f"{number}\n")
    place.settle()
    first = place.take()
    again = place.take()
    assert (first.changed, again.changed) == (True, False)
    assert (again.cost.files_read, again.cost.bytes_written) == (0, 0)
    assert again.snapshot.tree == first.snapshot.tree
    assert again.snapshot.counts == first.snapshot.counts
    assert again.snapshot.parent == first.snapshot.id
    assert again.snapshot.id != first.snapshot.id


def test_one_changed_file_costs_itself_and_the_folders_above(place):
    for number in range(300):
        place.write(f"a/b/d{number % 3}/f{number}", f"{number}\n" * 100)
    place.settle()
    place.take()
    place.write("a/b/d1/f1", "changed\n")
    again = place.take()
    assert again.cost.files_read == 1
    assert again.cost.bytes_written < 20_000
    assert again.changed
    assert place.store.read(again.snapshot.id, "a/b/d1/f1") == b"changed\n"
    assert place.store.read(again.snapshot.parent, "a/b/d1/f1") == b"1\n" * 100


def test_a_change_in_a_folder_of_many_files_costs_one_page_of_it(place):
    for number in range(5_000):
        place.write(f"f{number}", b"")
    place.settle()
    first = place.take()
    place.write("f2500", "x")
    place.write("between", "y")
    again = place.take()
    assert again.cost.files_read == 2
    assert again.cost.bytes_written < 150_000 < first.cost.bytes_written
    assert again.snapshot.counts.files == 5_001
    assert len(place.store.show(again.snapshot.id)) == 5_001


def test_the_same_content_is_stored_once(place):
    for number in range(20):
        place.write(f"f{number}", b"the same" * 1000)
    assert place.take().cost.bytes_written < 8_000 + 20 * 100


def test_content_that_comes_back_is_not_stored_again(place):
    data = os.urandom(100_000)
    for content in (data, b"something else", data):
        place.write("f", content)
        taken = place.take()
    assert taken.cost.bytes_written == 0
    assert place.store.read(taken.snapshot.id, "f") == data


def test_a_change_in_the_moment_of_the_snapshot_is_seen_by_the_next(place):
    """Same size, same inode, same modification time: only the rule for racy timestamps can tell."""
    for attempt in range(30):
        path = place.write("f", "aaaa")
        status = os.stat(path)
        place.take()
        with open(path, "r+b") as file:
            file.write(b"bbbb")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert place.store.read(place.take().snapshot.id, "f") == b"bbbb", attempt


def test_a_change_whose_size_and_time_were_put_back_is_seen(place):
    path = place.write("f", "aaaa")
    place.write("other", "x")
    place.settle()
    status = os.stat(path)
    place.take()
    with open(path, "r+b") as file:
        file.write(b"bbbb")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    taken = place.take()
    assert (place.store.read(taken.snapshot.id, "f"), taken.cost.files_read) == (b"bbbb", 1)


def test_a_look_is_trusted_only_when_it_is_older_than_the_clock_is_coarse():
    now = 1_700_000_000_123_456_789
    assert stat_cache.is_racy(now, now)
    assert stat_cache.is_racy(now - 1_000_000, now)
    assert not stat_cache.is_racy(now - 100_000_000, now)
    assert stat_cache.is_racy(now // 10**9 * 10**9 - 10**9, now), "a disk that keeps whole seconds"
    assert stat_cache.is_racy(now + 10**12, now), "a clock that was set back"


def test_a_racy_file_is_read_again_even_when_it_looks_the_same(place, monkeypatch):
    place.write("f", "x")
    place.settle()
    monkeypatch.setattr(walker, "is_racy", lambda touched, started: True)
    place.take()
    monkeypatch.undo()
    assert place.take().cost.files_read == 1
    assert place.take().cost.files_read == 0


def during_read(monkeypatch, act, times=1):
    """Run `act` after the bytes of a file were read, before it is looked at again."""
    real = os.pread
    left = [times]

    def pread(fd, size, at):
        data = real(fd, size, at)
        if left[0]:
            left[0] -= 1
            act()
        return data

    monkeypatch.setattr(file_reader.os, "pread", pread)


def test_a_file_that_changes_while_it_is_read_is_read_again(place, monkeypatch):
    path = place.write("f", "old")
    place.settle()

    def change():
        with open(path, "w") as file:
            file.write("newer")

    with monkeypatch.context() as patch:
        during_read(patch, change)
        snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "f") == b"newer"
    assert snapshot.notes == ()


def test_a_change_within_one_tick_of_the_clock_is_seen_though_no_time_tells(place, monkeypatch):
    path = place.write("f", "old")
    real = file_reader.stat_entry

    def change():
        with open(path, "r+b") as file:
            file.write(b"new")

    with monkeypatch.context() as patch:
        # As a clock that stands still has them. That they are young is still seen.
        patch.setattr(file_reader, "stat_entry", lambda *seen: real(*seen)._replace(mtime_ns=1, ctime_ns=1))
        patch.setattr(file_reader, "is_racy", lambda touched_ns, now_ns: True)
        during_read(patch, change)
        snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "f") == b"new"
    assert snapshot.notes == ()


def test_a_young_file_is_read_twice_for_its_times_may_stand_still(place, monkeypatch):
    path = place.write("f", "old")
    real, young = os.fstat, os.stat(path)

    def change():
        with open(path, "r+b") as file:
            file.write(b"new")

    def standing_still(fd):
        status = real(fd)
        return young if status.st_ino == young.st_ino else status

    with monkeypatch.context() as patch:
        patch.setattr(file_reader.os, "fstat", standing_still)
        patch.setattr(file_reader.time, "time_ns", lambda: young.st_ctime_ns)  # however long it took to come here
        during_read(patch, change)
        snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "f") == b"new"
    assert snapshot.notes == ()


def test_a_file_that_keeps_changing_is_held_as_torn_and_noted(place, monkeypatch):
    path = place.write("f", "0")
    place.write("other", "x")
    place.settle()
    count = iter(range(10_000))

    def change():
        with open(path, "a") as file:
            file.write(str(next(count)))

    with monkeypatch.context() as patch:
        during_read(patch, change, times=10_000)
        snapshot = place.take().snapshot
    assert [(note.path, "torn" in note.why) for note in snapshot.notes] == [(b"f", True)]
    assert snapshot.counts.torn == 1
    (entry,) = (one for one in place.store.show(snapshot.id) if one.name == b"f")
    assert entry.torn
    place.settle()
    healed = place.take().snapshot
    assert (healed.counts.torn, healed.notes) == (0, ())


def test_a_file_that_goes_away_while_it_is_looked_for_is_simply_not_there(place, monkeypatch):
    path = place.write("f", "x")
    place.write("g", "y")
    real = file_reader.FileReader.read_all

    def read(self, folder, rows):
        if rows[0][0] == "f":
            os.unlink(path)
        return real(self, folder, rows)

    monkeypatch.setattr(file_reader.FileReader, "read_all", read)
    snapshot = place.take().snapshot
    assert [entry.name for entry in place.store.show(snapshot.id)] == [b"g"]
    assert snapshot.notes == ()


def test_each_file_has_its_own_content_whatever_stands_and_happens_between_them(place, monkeypatch):
    for number in range(12):
        place.write(f"f{number:02}", f"old {number}")
        (place.root / f"f{number:02}-folder").mkdir()
        os.symlink("nowhere", place.root / f"f{number:02}-link")
        os.mkfifo(place.root / f"f{number:02}-pipe")
    place.settle()
    place.take()
    for number in range(0, 12, 2):
        place.write(f"f{number:02}", f"changed {number}")
    place.settle()
    place.write("f06", "too new for its time to tell")
    real = file_reader.FileReader.read_all

    def read(self, folder, rows):
        os.unlink(place.root / "f04")
        return real(self, folder, rows)

    monkeypatch.setattr(file_reader.FileReader, "read_all", read)
    taken = place.take()
    held = {entry.name: entry.kind for entry in place.store.show(taken.snapshot.id)}
    wanted = {f"f{number:02}": f"old {number}" if number % 2 else f"changed {number}" for number in range(12)}
    wanted["f06"] = "too new for its time to tell"
    del wanted["f04"]
    assert {os.fsdecode(name) for name, kind in held.items() if kind is EntryKind.FILE} == set(wanted)
    assert {name: place.store.read(taken.snapshot.id, name).decode() for name in wanted} == wanted
    assert (taken.cost.files_read, taken.snapshot.counts.links) == (5, 12)


def test_a_name_that_is_listed_twice_is_held_once(place, monkeypatch):
    for name in ("a", "b", "c"):
        place.write(name, name)
    (place.root / "d").mkdir()
    place.settle()
    real = os.scandir

    @contextlib.contextmanager
    def twice(fd):
        with real(fd) as entries:
            listed = list(entries)
            yield [*listed, *listed]

    with monkeypatch.context() as patch:
        patch.setattr(stat_cache.os, "scandir", twice)
        snapshot = place.take().snapshot
    assert [entry.name for entry in place.store.show(snapshot.id)] == [b"a", b"b", b"c", b"d"]
    assert place.store.read(snapshot.id, "b") == b"b"


@pytest.mark.parametrize("kernel", [True, False])
def test_a_folder_swapped_for_a_link_never_leads_out(place, tmp_path, monkeypatch, kernel):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    place.write("a/b/file", "x")
    real_init = folders.RootFolder.__init__
    monkeypatch.setattr(folders.RootFolder, "__init__", lambda self, path: real_init(self, path, kernel=kernel))
    real = folders.RootFolder.open

    def swap(self, path):
        if path == b"a/b":
            os.rename(place.root / "a", place.root / "moved")
            os.symlink(outside, place.root / "a")
            (outside / "b").mkdir(exist_ok=True)
            (outside / "b" / "secret").write_text("secret")
        return real(self, path)

    monkeypatch.setattr(folders.RootFolder, "open", swap)
    snapshot = place.take().snapshot
    monkeypatch.undo()
    told = [note.why for note in snapshot.notes]
    assert told == ["it became a link while it was looked at"]
    with place.store.reader() as reader:
        names = [entry.name for entry in reader.entries(snapshot.tree)]
    assert b"secret" not in names
    (note,) = snapshot.notes
    assert note.path == b"a/b"


@pytest.mark.parametrize("kernel", [True, False])
def test_other_mounts_are_not_crossed(place, small_disk, tmp_path, monkeypatch, kernel):
    real_init = folders.RootFolder.__init__
    monkeypatch.setattr(folders.RootFolder, "__init__", lambda self, path: real_init(self, path, kernel=kernel))
    (small_disk / "file").write_text("other disk")
    snapshot = place.store.create(str(tmp_path / "disk")).snapshot
    assert snapshot.counts.files == 1, "its own root may be a mount"
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "inside").mkdir()
    subprocess.run(["mount", "--bind", str(small_disk), str(tmp_path / "above" / "inside")], check=True)
    try:
        above = place.store.create(str(tmp_path / "above")).snapshot
    finally:
        subprocess.run(["umount", str(tmp_path / "above" / "inside")], check=True)
    assert above.notes == (PathNote(b"inside", "another mount"),)


def test_a_tree_deeper_than_recursion_goes_is_walked(place):
    os.chdir(place.root)
    try:
        for _ in range(1_500):
            os.mkdir("d")
            os.chdir("d")
        with open("leaf", "w") as file:
            file.write("deep")
    finally:
        os.chdir("/")
    snapshot = place.take().snapshot
    assert snapshot.counts.folders == 1_500
    assert place.store.read(snapshot.id, "d/" * 1_500 + "leaf") == b"deep"
    subprocess.run(["rm", "-rf", str(place.root / "d")], check=True)


def test_a_store_inside_the_folder_is_refused(place):
    with (
        SnapshotStore(str(place.root / "state")) as store,
        pytest.raises(ValidationError, match="contains the snapshot store"),
    ):
        store.create(str(place.root))


def test_a_folder_that_is_not_there_is_said_so(place):
    with pytest.raises(ToolError, match="No such file or folder"):
        place.store.create(str(place.root / "missing"))


def test_giving_up_keeps_nothing(place):
    place.write("f", "x" * 1000)
    calls = iter(range(10))

    def check():
        if next(calls) == 1:
            raise ToolError("enough")

    place.write("d/g", "y" * 1000)
    with pytest.raises(ToolError, match="enough"):
        place.take(check=check)
    assert place.store.list() == []
    assert os.listdir(place.folder / "packs") == []
    assert place.take().snapshot.counts.files == 2


def test_a_second_writer_waits_and_is_told_when_that_takes_too_long(place):
    place.write("f", "x")
    entered, leave = threading.Event(), threading.Event()

    def check():
        entered.set()
        assert leave.wait(30)

    holder = threading.Thread(target=place.take, kwargs={"check": check})
    holder.start()
    try:
        assert entered.wait(30)
        with (
            SnapshotStore(str(place.folder), StoreOptions(lock_seconds=0.05)) as other,
            pytest.raises(ToolError, match="kept the snapshots locked") as raised,
        ):
            other.create(str(place.root))
        assert raised.value.retryable
        assert place.store.list() == [], "readers do not wait"
    finally:
        leave.set()
        holder.join(30)
    assert len(place.store.list()) == 1


def test_a_newer_format_is_refused_in_words(place):
    import sqlite3

    place.store.close()
    db = sqlite3.connect(place.folder / "index.sqlite3")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SystemFault, match="another version"):
        SnapshotStore(str(place.folder))
    os.unlink(place.folder / "index.sqlite3")
    place.store = SnapshotStore(str(place.folder))


def test_an_index_that_is_no_database_is_said_so(place):
    place.store.close()
    for name in os.listdir(place.folder):
        if name.startswith("index"):
            os.unlink(place.folder / name)
    (place.folder / "index.sqlite3").write_bytes(b"nonsense" * 1000)
    with pytest.raises(SystemFault, match="cannot be used"):
        SnapshotStore(str(place.folder))
    os.unlink(place.folder / "index.sqlite3")
    place.store = SnapshotStore(str(place.folder))


def test_snapshots_are_found_by_the_beginning_of_their_id(place):
    place.write("f", "1")
    first = place.take().snapshot
    place.write("f", "2")
    second = place.take().snapshot
    assert place.store.get(first.id[:8]) == first
    assert place.store.get("latest") == second
    for name in ("", "zzzz", first.id + "0"):
        with pytest.raises(ToolyardError):
            place.store.get(name)
    with pytest.raises(ToolError, match="does not contain missing"):
        place.store.read(first.id, "missing")
    with pytest.raises(ToolError, match="is not a file"):
        place.store.read(first.id, "")


def test_the_files_of_a_store_are_private(place):
    place.write("f", "x")
    place.take()
    for folder, folders_in, files in os.walk(place.folder):
        for name in folders_in + files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o077 == 0, name


def test_many_folders_share_a_store_and_do_not_mix(place, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_text("other")
    place.write("f", "mine")
    mine = place.take().snapshot
    theirs = place.store.create(str(other)).snapshot
    assert (mine.parent, theirs.parent) == (None, None)
    assert place.store.list(str(other)) == [theirs]
    assert place.store.read(theirs.id, "f") == b"other"


def many_files(place, folders, each):
    for folder in range(folders):
        os.mkdir(place.root / f"d{folder}")
        handle = os.open(place.root / f"d{folder}", os.O_RDONLY)
        for number in range(each):
            file = os.open(f"f{number}", os.O_WRONLY | os.O_CREAT, dir_fd=handle)
            os.write(file, b"%d %d" % (folder, number))
            os.close(file)
        os.close(handle)
    place.settle()


@pytest.mark.timeout(300)
def test_twenty_thousand_files_are_read_once(place):
    many_files(place, 100, 200)
    assert place.take().snapshot.counts.files == 20_000
    again = place.take()
    assert (again.cost.files_read, again.cost.bytes_written) == (0, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_thousand_files_are_held_in_bounded_memory_and_restored(place, tmp_path):
    many_files(place, 400, 500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    snapshot = place.take().snapshot
    assert snapshot.counts.files == 200_000
    assert place.take().cost.files_read == 0
    (tmp_path / "out").mkdir()
    restored = place.store.restore(snapshot.id, root=str(tmp_path / "out"))
    assert (restored.skipped, restored.failed) == ((), ())
    assert place.store.diff(snapshot.id, root=str(tmp_path / "out")).total == 0
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert kilobytes < 400_000
