"""A lost or damaged index is made again from the packs, and nothing of the snapshots is lost with it."""

import os
import shutil
import sqlite3

import pytest

from toolyard.core.errors import SystemFault, ToolError
from toolyard.snapshots import SnapshotStore

INDEX = "index.sqlite3"


@pytest.fixture
def taken(place):
    place.write("f", "first\n")
    place.write("d/big", b"0123456789abcdef" * 40_000)
    os.mkfifo(place.root / "pipe")
    one = place.take(agent="a", reason="one").snapshot
    place.write("f", "second\n")
    place.write(b"d/\xff", "odd\n")
    two = place.take(agent="b", reason="two").snapshot
    return [two, one]


def without_index(place):
    place.store.close()
    for end in ("", "-wal", "-shm"):
        if os.path.exists(place.folder / (INDEX + end)):
            os.unlink(place.folder / (INDEX + end))


def damage(place, data):
    """Change a byte of `data` in the one pack that holds it."""
    (pack,) = [path for path in (place.folder / "packs").iterdir() if data in path.read_bytes()]
    content = bytearray(pack.read_bytes())
    content[content.index(data)] ^= 1
    pack.write_bytes(content)


def test_a_store_whose_index_is_gone_is_as_it_was_when_it_is_opened(place, taken):
    without_index(place)
    place.reopened()
    assert place.store.list() == taken
    assert place.store.verify().is_intact
    assert place.store.read(taken[1].id, "f") == b"first\n"
    assert place.take().snapshot.parent == taken[0].id
    os.unlink(place.root / "f")
    assert place.store.restore(taken[1].id).failed == ()
    assert (place.root / "f").read_text() == "first\n"


def test_a_writer_that_finds_no_index_takes_no_pack_away(place, taken):
    without_index(place)
    before = {path.name: path.read_bytes() for path in (place.folder / "packs").iterdir()}
    place.reopened()
    place.write("f", "third\n")
    place.take()
    for name, data in before.items():
        assert (place.folder / "packs" / name).read_bytes().startswith(data)


def test_an_index_that_is_no_database_is_rebuilt_when_asked_and_kept_aside(place, taken):
    without_index(place)
    (place.folder / INDEX).write_bytes(b"no database" * 1000)
    with pytest.raises(SystemFault, match="cannot be used"):
        SnapshotStore(str(place.folder))
    rebuilt = SnapshotStore.rebuild(str(place.folder))
    assert (rebuilt.snapshots, rebuilt.lost) == (2, ())
    (aside,) = [name for name in os.listdir(place.folder) if name.startswith(INDEX + ".")]
    assert (place.folder / aside).read_bytes() == b"no database" * 1000
    assert place.reopened().list() == taken
    assert oct(os.stat(place.folder / INDEX).st_mode & 0o777) == "0o600"


def test_a_damaged_spot_costs_what_lies_in_it(place, taken):
    without_index(place)
    damage(place, b"first\n")
    place.reopened()
    assert place.store.list() == taken
    assert [(harm.snapshot.id, harm.path) for harm in place.store.verify().damaged_paths] == [(taken[1].id, b"f")]
    assert place.store.read(taken[0].id, "f") == b"second\n"


def test_a_damaged_length_costs_its_record_and_no_other(place, taken):
    without_index(place)
    (pack,) = (place.folder / "packs").iterdir()
    content = bytearray(pack.read_bytes())
    content[content.index(b"first\n") - 36 : content.index(b"first\n") - 32] = b"\xff" * 4
    pack.write_bytes(content)
    place.reopened()
    assert place.store.list() == taken
    assert {harm.path for harm in place.store.verify().damaged_paths} == {b"f"}


def test_what_a_killed_writer_left_is_no_object(place, taken):
    without_index(place)
    (pack,) = (place.folder / "packs").iterdir()
    size = pack.stat().st_size
    with open(pack, "ab") as file:
        file.write(pack.read_bytes()[: size // 3])
    place.reopened()
    assert place.store.list() == taken
    place.write("f", "third\n")
    assert place.store.read(place.take().snapshot.id, "f") == b"third\n"
    assert place.store.verify().is_intact


def test_a_rebuild_that_was_killed_is_done_again(place, taken):
    without_index(place)
    (place.folder / f"{INDEX}.new").write_bytes(b"half an index")
    assert place.reopened().list() == taken


def test_a_pack_among_the_files_is_a_file(place, taken):
    shutil.copytree(place.folder / "packs", place.root / "copy")
    third = place.take().snapshot
    without_index(place)
    assert place.reopened().list() == [third, *taken]


def test_what_collections_kept_is_there_and_moved_records_are_found(place):
    kept = []
    for number in range(6):
        place.write("f", os.urandom(50_000))
        place.write("g", f"{number}\n")
        kept.insert(0, place.take().snapshot)
    place.store.gc(keep=2)
    without_index(place)
    assert [one.id for one in place.reopened().list()] == [one.id for one in kept[:2]]
    assert place.store.verify().is_intact


def test_an_index_of_the_version_before_is_taken_over(place, taken):
    place.store.close()
    with sqlite3.connect(place.folder / INDEX) as db:
        db.execute("ALTER TABLE snapshots DROP COLUMN record")
        db.execute("PRAGMA user_version = 1")
    db.close()
    assert place.reopened().list() == taken
    assert place.store.gc(keep=1).snapshots == (taken[1],)
    assert place.store.verify().is_intact


def test_a_folder_without_packs_is_said_so(tmp_path):
    with pytest.raises(ToolError, match="no snapshots"):
        SnapshotStore.rebuild(str(tmp_path))
