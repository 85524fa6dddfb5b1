"""A restore brings back what a snapshot holds, can be undone, and takes away nothing that no snapshot holds."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.core.errors import SystemFault, ToolError
from toolyard.snapshots import PathNote, SnapshotStore
from toolyard.snapshots.archive import file_reader
from toolyard.snapshots.archive.ignore_files import record_accepted
from toolyard.snapshots.restore import file_writer, restorer

from .conftest import picture


def fill(place):
    place.write("a/one.txt", "one\n", 0o640)
    place.write("a/b/two.bin", bytes(range(256)) * 2000, 0o755)
    place.write(b"a/\xff", b"odd")
    place.write("top", "")
    (place.root / "empty" / "inner").mkdir(parents=True)
    os.chmod(place.root / "empty", 0o711)
    os.symlink("a/one.txt", place.root / "link")
    os.symlink("loop", place.root / "loop")


def spoil(place):
    place.write("a/one.txt", "changed\n", 0o600)
    shutil.rmtree(place.root / "a" / "b")
    place.write("a/b", "a file where a folder was")
    os.unlink(place.root / "top")
    place.write("top/now/a/folder", "x")
    os.unlink(place.root / "link")
    os.symlink("elsewhere", place.root / "link")
    shutil.rmtree(place.root / "empty")
    place.write("new/file", "new")
    os.chmod(place.root / "a", 0o700)


def test_everything_comes_back_and_can_be_undone(place):
    fill(place)
    before = place.picture()
    snapshot = place.take().snapshot
    spoil(place)
    spoiled = place.picture()

    restored = place.store.restore(snapshot.id)

    assert place.picture() == before
    assert (restored.skipped, restored.failed) == ((), ())
    assert restored.written > 0 < restored.removed
    assert restored.before.reason == f"before restoring {snapshot.id}"
    assert place.store.diff(snapshot.id).changes == ()
    place.store.restore(restored.before.id)
    assert place.picture() == spoiled


def test_an_unchanged_folder_is_left_alone(place):
    fill(place)
    place.settle()
    snapshot = place.take().snapshot
    inode = os.stat(place.root / "a/one.txt").st_ino
    restored = place.store.restore(snapshot.id)
    assert (restored.written, restored.removed) == (0, 0)
    assert os.stat(place.root / "a/one.txt").st_ino == inode


def test_a_lost_folder_comes_back_whole(place):
    fill(place)
    before = place.picture()
    snapshot = place.take().snapshot
    for name in os.listdir(place.root):
        path = place.root / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else os.unlink(path)
    place.store.restore(snapshot.id)
    assert place.picture() == before


def test_only_the_named_paths_are_restored(place):
    fill(place)
    before = place.picture()
    snapshot = place.take().snapshot
    spoil(place)
    spoiled = place.picture()
    place.store.restore(snapshot.id, paths=["a/b/two.bin", "empty/"])
    after = place.picture()
    names = {b"a/b", b"a/b/two.bin", b"empty", b"empty/inner"}
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    rest = {name: value for name, value in after.items() if name not in names}
    assert rest == {name: value for name, value in spoiled.items() if name not in names}


def test_a_file_in_a_folder_that_is_gone_brings_only_itself(place):
    fill(place)
    snapshot = place.take().snapshot
    shutil.rmtree(place.root / "a")
    place.store.restore(snapshot.id, paths=["a/b/two.bin"])
    assert sorted(os.listdir(place.root / "a")) == ["b"]
    assert os.listdir(place.root / "a" / "b") == ["two.bin"]


def test_a_name_is_known_by_the_spelling_in_which_it_is_told(place):
    for name in (b"d\xfe/od\xffd", b"line\nbreak", b"plain"):
        place.write(name, "old")
    snapshot = place.take().snapshot
    for name in (b"d\xfe/od\xffd", b"line\nbreak", b"plain"):
        place.write(name, "new")
    place.write(b"la\xffter", "new")

    told = [r"d\xfe/od\xffd", r"line\nbreak", r"la\xffter"]
    restored = place.store.restore(snapshot.id, paths=told)

    after = {name: content for name, (kind, *_, content) in place.picture().items() if kind == "-"}
    assert after == {b"d\xfe/od\xffd": b"old", b"line\nbreak": b"old", b"plain": b"new"}
    place.store.restore(restored.before.id, paths=told)
    assert place.picture()[b"la\xffter"][-1] == b"new"
    assert place.picture()[b"d\xfe/od\xffd"][-1] == b"new"


def test_a_name_itself_goes_before_one_that_is_told_so_and_two_told_alike_are_none(place):
    place.write(b"x\xff", "old")
    place.write(rb"x\xff", "old")
    snapshot = place.take().snapshot
    place.write(b"x\xff", "new")
    place.write(rb"x\xff", "new")
    place.store.restore(snapshot.id, paths=[r"x\xff"])
    assert [place.picture()[name][-1] for name in (rb"x\xff", b"x\xff")] == [b"old", b"new"]

    place.write(b"f\xff/other", "old")
    place.write(rb"f\xff/" + b"z\xfe", "new")
    place.store.restore(snapshot.id, paths=[r"f\xff/z\xfe"])
    assert not os.path.exists(os.path.join(os.fsencode(place.root), rb"f\xff/" + b"z\xfe"))

    for name in (b"y\x85", b"y\xc2\x85"):  # both are told as y\\x85
        place.write(name, "new")
    with pytest.raises(ToolError, match="Neither the snapshot nor the folder has"):
        place.store.restore(snapshot.id, paths=[r"y\x85"])
    assert {place.picture()[name][-1] for name in (b"y\x85", b"y\xc2\x85")} == {b"new"}


def test_a_path_that_nobody_has_is_said_so(place):
    fill(place)
    snapshot = place.take().snapshot
    with pytest.raises(ToolError, match="Neither the snapshot nor the folder has nothing/here"):
        place.store.restore(snapshot.id, paths=["nothing/here"])


def test_what_is_ignored_is_never_taken_away_or_replaced(place):
    place.write("keep/file", "x")
    snapshot = place.take().snapshot
    place.accept("*.log\nbuilt/\n")
    place.write("dropped/build.log", "log")
    place.write("dropped/source", "y")
    place.write("built/out", "z")
    restored = place.store.restore(snapshot.id)
    assert (place.root / "dropped/build.log").read_text() == "log"
    assert (place.root / "built/out").read_text() == "z"
    assert not (place.root / "dropped/source").exists()
    assert restored.skipped == (PathNote(b"dropped", "it still contains files that no snapshot contains"),)


def test_what_the_snapshot_holds_does_not_replace_what_the_settings_leave_out_by_now(place):
    place.write("data", "old")
    place.write("folder/inner", "old")
    snapshot = place.take().snapshot
    place.write("data", "precious")
    place.write("folder/more", "precious")
    place.store.options = replace(place.store.options, ignore=("data", "folder"))
    restored = place.store.restore(snapshot.id)
    assert (place.root / "data").read_text() == "precious"
    assert (place.root / "folder/more").read_text() == "precious"
    assert PathNote(b"data", "something else is there that no snapshot contains") in restored.skipped


@pytest.mark.parametrize("rules", ["*", "data\nfolder", "/**"])
def test_rules_accepted_later_do_not_keep_earlier_changes_from_being_undone(place, rules):
    place.write("data", "old")
    place.write("folder/deep/inner", "old")
    snapshot = place.take().snapshot
    was = place.picture()
    place.write("data", "changed")
    place.write("folder/deep/inner", "changed")
    place.write("folder/more", "new")
    place.accept(rules)
    now = {path: seen for path, seen in place.picture().items() if path != b"folder/more"}

    told = place.store.diff(snapshot.id).changes
    restored = place.store.restore(snapshot.id)

    assert {b"data", b"folder/deep/inner"} <= {change.path for change in told if change.before and change.after}
    assert {path: place.picture()[path] for path in was} == was
    assert (place.root / "folder/more").read_text() == "new", "what no snapshot holds stays"
    assert not (place.root / ".toolyardignore").exists()
    place.store.restore(restored.before.id)
    assert {path: place.picture()[path] for path in now} == now


def test_what_could_not_be_held_is_left_alone(place):
    place.write("f", "x")
    snapshot = place.take().snapshot
    os.unlink(place.root / "f")
    os.mkfifo(place.root / "f")
    restored = place.store.restore(snapshot.id)
    assert stat.S_ISFIFO(os.stat(place.root / "f").st_mode)
    assert restored.skipped == (PathNote(b"f", "no snapshot contains it: a named pipe"),)


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_written_after_the_snapshot_before_is_kept(place, monkeypatch, how):
    place.write("other", "x")
    if how == "replaced":
        place.write("f", "old")
    snapshot = place.take().snapshot
    place.write("f", "newer")
    real = restorer.Restorer.run

    def run(self, plan):
        place.write("f", "newest")
        real(self, plan)

    monkeypatch.setattr(restorer.Restorer, "run", run)
    restored = place.store.restore(snapshot.id)
    assert (place.root / "f").read_text() == "newest"
    assert restored.skipped == (PathNote(b"f", "it was changed after the snapshot"),)


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_written_in_the_last_moment_is_put_back(place, monkeypatch, how):
    if how == "replaced":
        place.write("f", "old")
    snapshot = place.take().snapshot
    place.write("f", "newer")
    real = file_writer.lstat_or_none

    def look_at(fd, name):
        status = real(fd, name)
        os.unlink(place.root / "f")
        place.write("f", "newest of all")
        return status

    monkeypatch.setattr(restorer, "lstat_or_none", look_at)
    monkeypatch.setattr(restorer.UnchangedCheck, "is_unchanged", lambda *_: True)
    restored = place.store.restore(snapshot.id)
    assert (place.root / "f").read_text() == "newest of all"
    assert restored.skipped == (PathNote(b"f", "it was changed meanwhile"),)
    assert sorted(os.listdir(place.root)) == ["f"], "nothing temporary is left"


def test_a_folder_swapped_for_a_link_leads_no_write_out(place, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("outside")
    place.write("d/f", "old")
    snapshot = place.take().snapshot
    place.write("d/f", "new")
    real = restorer.Restorer.run

    def run(self, plan):
        os.rename(place.root / "d", place.root / "moved")
        os.symlink(outside, place.root / "d")
        real(self, plan)

    monkeypatch.setattr(restorer.Restorer, "run", run)
    restored = place.store.restore(snapshot.id)
    assert (outside / "f").read_text() == "outside"
    assert os.listdir(outside) == ["f"]
    assert [note.path for note in restored.failed] == [b"d/f"]


def test_modes_come_back_without_rewriting_files(place):
    place.write("f", "x", 0o644)
    os.mkdir(place.root / "d", 0o755)
    place.settle()
    snapshot = place.take().snapshot
    inode = os.stat(place.root / "f").st_ino
    os.chmod(place.root / "f", 0o400)
    os.chmod(place.root / "d", 0o700)
    os.chmod(place.root, 0o711)
    place.store.restore(snapshot.id)
    modes = [stat.S_IMODE(os.stat(place.root / name).st_mode) for name in ("f", "d", ".")]
    assert modes == [0o644, 0o755, snapshot.mode]
    assert os.stat(place.root / "f").st_ino == inode


def test_rights_that_a_program_lends_do_not_come_back(place):
    place.write("f", "x", 0o4755)
    snapshot = place.take().snapshot
    os.unlink(place.root / "f")
    place.store.restore(snapshot.id)
    assert stat.S_IMODE(os.stat(place.root / "f").st_mode) == 0o755


def test_a_torn_file_replaces_the_live_one_only_when_it_is_named(place, monkeypatch):
    path = place.write("f", "0")
    place.settle()
    real = os.pread

    def pread(fd, size, at):
        data = real(fd, size, at)
        with open(path, "a") as file:
            file.write("0")
        return data

    with monkeypatch.context() as patch:
        patch.setattr(file_reader.os, "pread", pread)
        snapshot = place.take().snapshot
    assert snapshot.counts.torn == 1
    place.write("f", "whole")
    restored = place.store.restore(snapshot.id)
    assert (place.root / "f").read_text() == "whole"
    assert [note.path for note in restored.skipped] == [b"f"]
    place.store.restore(snapshot.id, paths=["f"])
    assert set((place.root / "f").read_text()) == {"0"}


@pytest.mark.parametrize("name", ["held", "new"], ids=["replaced", "removed"])
def test_a_file_that_keeps_changing_is_left_alone(place, monkeypatch, name):
    place.write("held", "old")
    place.write("other", "old")
    snapshot = place.take().snapshot
    path = place.write(name, "log")
    place.write("other", "changed")
    real = os.pread

    def pread(fd, size, at):
        data = real(fd, size, at)
        with open(path, "a") as file:
            file.write(".")
        return data

    with monkeypatch.context() as patch:
        patch.setattr(file_reader.os, "pread", pread)
        restored = place.store.restore(snapshot.id)
    assert (place.root / name).read_text().startswith("log.")
    assert [note.path for note in restored.skipped] == [os.fsencode(name)]
    assert (place.root / "other").read_text() == "old"


def test_holes_stay_holes(place):
    path = place.write("sparse", b"")
    with open(path, "r+b") as file:
        file.truncate(64 << 20)
        file.seek(20 << 20)
        file.write(b"island" * 1000)
    with open(path, "rb") as file:
        content = file.read()
    taken = place.take()
    assert taken.cost.bytes_written < 1_000_000
    os.unlink(path)
    place.store.restore(taken.snapshot.id)
    with open(path, "rb") as file:
        assert file.read() == content
    assert os.stat(path).st_blocks * 512 < 2 << 20


def test_holes_are_skipped_and_not_read(place, monkeypatch):
    path = place.write("sparse", b"begin")
    with open(path, "r+b") as file:
        file.seek(64 << 20)
        file.write(b"middle")
        file.truncate(128 << 20)
        file.flush()
        os.fsync(file.fileno())
        if os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA) == 1 << 20:
            pytest.skip("this disk keeps no holes")
    real, read = os.pread, []

    def pread(fd, size, at):
        read.append(size)
        return real(fd, size, at)

    with monkeypatch.context() as patch:
        patch.setattr(file_reader.os, "pread", pread)
        snapshot = place.take().snapshot
    assert sum(read) < 8 << 20
    assert place.store.read(snapshot.id, "sparse")[64 << 20 :].startswith(b"middle\0")


def test_zeros_are_the_same_whether_they_were_written_or_not(place):
    place.write("written", bytes(1_000_000) + b"end")
    path = place.write("skipped", b"")
    with open(path, "r+b") as file:
        file.seek(1_000_000)
        file.write(b"end")
    one, other = place.store.show(place.take().snapshot.id)
    assert (one.ref, one.size) == (other.ref, other.size)


def test_a_file_of_five_gigabytes_is_held_and_restored_in_little_memory(place):
    """Sparse, so that it is quick; its size is what matters."""
    path = place.write("huge", b"")
    size = 5 << 30
    with open(path, "r+b") as file:
        file.truncate(size)
        for at in (0, 3 << 30, size - 5):
            file.seek(at)
            file.write(b"data!")
    code = (
        "import sys\n"
        "from toolyard.snapshots import SnapshotStore\n"
        "import os\n"
        "with SnapshotStore(sys.argv[2]) as store:\n"
        "    taken = store.create(sys.argv[1])\n"
        "    os.unlink(sys.argv[1] + '/huge')\n"
        "    store.restore(taken.snapshot.id)\n"
        "    status = open('/proc/self/status').read()\n"  # getrusage would count what the parent had
        "    print(taken.cost.bytes_written, status.split('VmHWM:')[1].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(place.root), str(place.folder)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written, kilobytes = map(int, done.stdout.split())
    assert written < 2_000_000
    assert kilobytes < 200_000
    status = os.stat(path)
    assert (status.st_size, status.st_blocks * 512 < 4 << 20) == (size, True)
    with open(path, "rb") as file:
        assert file.read(5) == b"data!"
        file.seek(3 << 30)
        assert file.read(6) == b"data!\0"
        file.seek(-5, os.SEEK_END)
        assert file.read() == b"data!"


DENSE = """
import os, sys
from toolyard.snapshots import SnapshotStore
root, folder, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
with SnapshotStore(folder) as store:
    taken = store.create(root)
    os.unlink(root + "/dense")
    assert store.restore(taken.snapshot.id).failed == ()
    assert taken.cost.bytes_written >= size
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_big_dense_file_is_held_and_restored_in_little_memory(place):
    path = place.write("dense", b"")
    sums = []
    with open(path, "wb") as file:
        for _ in range(400):
            piece = os.urandom(1 << 20)
            file.write(piece)
            sums.append(zlib.crc32(piece))
    size = os.path.getsize(path)
    done = subprocess.run(
        [sys.executable, "-c", DENSE, str(place.root), str(place.folder), str(size)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200_000
    with open(path, "rb") as file:
        assert [zlib.crc32(file.read(1 << 20)) for _ in sums] == sums
    assert os.path.getsize(path) == size


def test_a_disk_that_fills_up_leaves_every_file_whole_and_says_how_to_go_back(place, small_disk, tmp_path):
    (small_disk / "a").write_bytes(b"a" * 700_000)
    (small_disk / "b").write_bytes(b"b" * 700_000)
    snapshot = place.store.create(str(small_disk)).snapshot
    (small_disk / "a").write_bytes(b"A" * 600_000)
    os.unlink(small_disk / "b")
    (small_disk / "c").write_bytes(b"c" * 700_000)
    (small_disk / ".toolyardignore").write_text("c\n")
    record_accepted(str(place.folder), str(small_disk), b"", b"c\n")
    with pytest.raises(SystemFault, match="stopped part way") as raised:
        place.store.restore(snapshot.id)
    assert place.store.list()[0].id in raised.value.hint
    contents_now = {name: (small_disk / name).read_bytes() for name in os.listdir(small_disk)}
    assert contents_now["c"] == b"c" * 700_000
    assert contents_now["a"] in (b"A" * 600_000, b"a" * 700_000)
    assert set(contents_now) <= {"a", "b", "c", ".toolyardignore"}, "nothing temporary is left"


AS_NOBODY = """
import os, sys
from toolyard.snapshots import SnapshotStore
os.setgid(65534); os.setuid(65534)
root = sys.argv[1] + "/root"
os.makedirs(root + "/locked/inner")
open(root + "/locked/inner/f", "w").write("old")
os.chmod(root + "/locked/inner", 0o500)
os.chmod(root + "/locked", 0o500)
with SnapshotStore(sys.argv[1] + "/state") as store:
    snapshot = store.create(root).snapshot
    os.chmod(root + "/locked", 0o700)
    os.chmod(root + "/locked/inner", 0o700)
    open(root + "/locked/inner/f", "w").write("new")
    os.chmod(root + "/locked/inner", 0o500)
    done = store.restore(snapshot.id)
    print(done.skipped, done.failed, open(root + "/locked/inner/f").read())
    print(oct(os.stat(root + "/locked").st_mode), oct(os.stat(root + "/locked/inner").st_mode))
    os.chmod(root + "/locked", 0o700)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_may_not_be_written_is_opened_for_the_restore_and_closed_again():
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o777)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, base], capture_output=True, text=True, check=False, timeout=50
        )
    assert done.stdout.splitlines() == ["() () old", "0o40500 0o40500"], done.stderr


NAMES = st.sampled_from(["a", "b", "c", "\udcff", "é"])
CONTENTS = st.one_of(st.binary(max_size=40), st.integers(1, 3).map(lambda n: bytes([n]) * 300_000))
LEAVES = st.one_of(
    st.tuples(st.just("file"), CONTENTS, st.sampled_from([0o600, 0o644, 0o755])),
    st.tuples(st.just("link"), st.sampled_from(["a", "../b", "/etc"])),
)
TREES = st.dictionaries(
    NAMES,
    st.recursive(LEAVES, lambda below: st.dictionaries(NAMES, below, max_size=4), max_leaves=8),
    max_size=5,
)


def build(folder, tree):
    for name, what in tree.items():
        path = os.path.join(folder, name)
        if isinstance(what, dict):
            os.mkdir(path)
            build(path, what)
        elif what[0] == "link":
            os.symlink(what[1], path)
        else:
            with open(path, "wb") as file:
                file.write(what[1])
            os.chmod(path, what[2])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=TREES, second=TREES)
def test_any_tree_survives_another_one_byte_for_byte(first, second):
    with tempfile.TemporaryDirectory() as base, SnapshotStore(f"{base}/state") as store:
        root = f"{base}/root"
        os.mkdir(root)
        build(root, first)
        was = picture(root)
        snapshot = store.create(root).snapshot
        shutil.rmtree(root)
        os.mkdir(root)
        build(root, second)
        between = picture(root)
        restored = store.restore(snapshot.id)
        assert (restored.skipped, restored.failed) == ((), ())
        assert picture(root) == was
        assert store.diff(snapshot.id).changes == ()
        store.restore(restored.before.id)
        assert picture(root) == between
        assert store.verify().is_intact
