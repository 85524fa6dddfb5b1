"""What a killed restore left under temporary names goes with the next snapshot, and is never in one."""

import errno
import fcntl
import os
import subprocess
import sys
import tempfile

import pytest

from toolyard.core.errors import SystemFault
from toolyard.snapshots.restore import file_writer, restorer

NAMES = [f".toolyard-tmp-{number:016x}" for number in range(4)]
FOLDER, HELD, UNKNOWN, LINK = NAMES


def names_in(entries):
    return {os.fsdecode(entry.name) for entry in entries}


@pytest.fixture
def left(place):
    """As after a kill: a folder half made, a file that a snapshot holds, one that none does, and a link."""
    place.write("d/f", "held\n")
    place.write("d/big", b"0123456789abcdef" * 40_000)
    place.take()
    place.write(f"d/{FOLDER}/half/made", "x")
    place.write(f"d/{FOLDER}/other", "x")
    os.chmod(place.root / f"d/{FOLDER}/half", 0)
    place.write(f"d/{HELD}", b"0123456789abcdef" * 40_000)
    place.write(f"d/{UNKNOWN}", "somebody's work\n")
    os.symlink("anywhere", place.root / f"d/{LINK}")
    return place


def test_the_next_snapshot_takes_them_away_but_not_what_nobody_holds(left):
    taken = left.take().snapshot
    assert names_in(left.store.show(taken.id, "d")) == {"f", "big"}
    kept = f"toolyard-kept-{UNKNOWN[-16:]}"
    assert set(os.listdir(left.root / "d")) == {"f", "big", kept}
    assert (left.root / "d" / kept).read_text() == "somebody's work\n"
    assert kept in names_in(left.store.show(left.take().snapshot.id, "d"))


def test_a_restore_takes_them_away_too(left):
    left.store.restore(left.store.list()[-1].id)
    assert not [name for name in os.listdir(left.root / "d") if name.startswith(".toolyard-tmp-")]


def test_what_somebody_is_writing_stays(left):
    writer = os.open(left.root / "d", os.O_RDONLY)
    try:
        fcntl.flock(writer, fcntl.LOCK_EX)
        left.take()
        assert set(NAMES) <= set(os.listdir(left.root / "d"))
    finally:
        os.close(writer)
    left.take()
    assert not set(NAMES) & set(os.listdir(left.root / "d"))


def test_names_that_only_look_alike_stay(place):
    place.write(".toolyard-tmp-of-somebody", "x")
    place.take()
    assert os.listdir(place.root) == [".toolyard-tmp-of-somebody"]


def test_a_restore_is_on_disk_before_it_is_told(place, monkeypatch):
    place.write("f", "one\n")
    one = place.take().snapshot
    synced = []
    real = restorer.sync_file_system
    monkeypatch.setattr(
        restorer, "sync_file_system", lambda fd: (synced.append((place.root / "f").read_text()), real(fd))
    )
    place.store.restore(one.id)
    assert synced == []
    place.write("f", "two\n")
    place.store.restore(one.id)
    assert synced == ["one\n"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_file_that_cannot_be_written_whole_is_not_there_at_all(place, monkeypatch, unnamed):
    place.write("f", b"0123456789abcdef" * 40_000)
    one = place.take().snapshot
    place.write("g", "stays\n")
    os.unlink(place.root / "f")
    real_open, real_write = os.open, os.pwrite

    def opened(path, flags, *rest, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE and not unnamed:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real_open(path, flags, *rest, **options)

    def written(fd, data, at):
        if at:
            raise OSError(errno.EIO, "the disk is broken")
        assert "f" not in os.listdir(place.root), "nobody sees it before it is whole"
        return real_write(fd, data, at)

    monkeypatch.setattr(file_writer.os, "open", opened)
    monkeypatch.setattr(file_writer.os, "pwrite", written)
    failed = place.store.restore(one.id, paths=["f"]).failed
    assert [(note.path, note.why) for note in failed] == [(b"f", "the disk is broken")]
    assert os.listdir(place.root) == ["g"]
    monkeypatch.setattr(file_writer.os, "pwrite", real_write)
    assert place.store.restore(one.id, paths=["f"]).failed == ()
    assert os.path.getsize(place.root / "f") == 640_000


def test_folders_that_do_not_fit_on_the_disk_leave_nothing_behind(place, small_disk):
    for number in range(30):
        place.write(f"top/d{number % 10}/e{number}/f", os.urandom(100_000))
    snapshot = place.take().snapshot
    with pytest.raises(SystemFault, match="stopped part way"):
        place.store.restore(snapshot.id, root=str(small_disk))
    assert os.listdir(small_disk) == []


def test_a_restore_of_folders_that_is_given_up_leaves_nothing_behind(place):
    for number in range(60):
        place.write(f"top/d{number % 10}/e{number}/f", f"{number}\n")
    snapshot = place.take().snapshot
    os.rename(place.root / "top", place.root.parent / "elsewhere")
    asked = []

    def give_up():
        asked.extend(os.listdir(place.root))
        if len(asked) > 2:  # some folders have been made
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.store.restore(snapshot.id, check=give_up)
    assert os.listdir(place.root) == []
    assert place.store.restore(snapshot.id).failed == ()
    assert len(os.listdir(place.root / "top")) == 10


AS_NOBODY = """
import os, sys
from toolyard.snapshots import SnapshotStore
os.setgid(65534); os.setuid(65534)
root = sys.argv[1] + "/root"
left = root + "/.toolyard-tmp-0123456789abcdef"
os.makedirs(left + "/closed/inner")
open(left + "/closed/inner/f", "w").write("x")
for folder in ("/closed/inner", "/closed", ""):
    os.chmod(left + folder, 0)
with SnapshotStore(sys.argv[1] + "/state") as store:
    store.create(root)
print(os.listdir(root))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_folders_that_are_closed_even_to_their_owner_go():
    with tempfile.TemporaryDirectory() as base:
        os.chmod(base, 0o777)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, base], capture_output=True, text=True, check=False, timeout=50
        )
    assert done.stdout == "[]\n", done.stderr
