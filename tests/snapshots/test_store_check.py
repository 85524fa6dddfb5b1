"""Damage is found, the files it harms are named, and everything else still restores."""

import os
import shutil

import pytest

from toolyard.snapshots import DamagedObjectError


def damage(place, content, *, by=b"\0"):
    """Change one byte of the record that holds `content`."""
    for name in os.listdir(place.folder / "packs"):
        path = place.folder / "packs" / name
        data = path.read_bytes()
        at = data.find(content)
        if at >= 0:
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(by)
            return
    raise AssertionError("not there")


@pytest.fixture
def taken(place):
    place.write("d/good", "good content\n")
    place.write("d/bad", "bad content\n")
    place.write("e/copy-of-bad", "bad content\n")
    place.write("big", os.urandom(600_000))
    place.settle()
    return place.take().snapshot


def test_a_sound_store_is_said_to_be_sound(place, taken):
    verified = place.store.verify()
    assert verified.is_intact
    assert verified.objects > 5
    assert verified.bytes_read > 600_000


def test_a_damaged_file_is_named_in_every_snapshot_that_needs_it(place, taken):
    second = place.take().snapshot
    place.write("d/bad", "something else\n")
    os.unlink(place.root / "e/copy-of-bad")
    place.take()
    damage(place, b"bad content\n")
    verified = place.store.verify()
    assert len(verified.damaged_objects) == 1
    assert [(harm.snapshot.id, harm.path) for harm in verified.damaged_paths] == [
        (second.id, b"d/bad"),
        (second.id, b"e/copy-of-bad"),
        (taken.id, b"d/bad"),
        (taken.id, b"e/copy-of-bad"),
    ]
    with pytest.raises(DamagedObjectError, match="bytes have changed"):
        place.store.read(taken.id, "d/bad")


@pytest.mark.parametrize("lost", ["one file", "everything"])
def test_the_rest_still_restores(place, taken, lost):
    damage(place, b"bad content\n")
    before = place.picture()
    for name in ["d", "e"] if lost == "everything" else ["d/bad"]:
        path = place.root / name
        shutil.rmtree(path) if path.is_dir() else os.unlink(path)
    os.unlink(place.root / "big")
    restored = place.store.restore(taken.id)
    harmed = {b"d/bad", b"e/copy-of-bad"} if lost == "everything" else {b"d/bad"}
    assert {note.path for note in restored.failed} == harmed
    assert place.picture() == {path: what for path, what in before.items() if path not in harmed}


def test_a_damaged_file_leaves_the_live_one_alone(place, taken):
    damage(place, b"bad content\n")
    place.write("d/bad", "live\n")
    restored = place.store.restore(taken.id)
    assert (place.root / "d/bad").read_text() == "live\n"
    assert [note.path for note in restored.failed] == [b"d/bad"]


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_live_file_whose_stored_bytes_are_damaged_may_be_the_only_copy_and_stays(place, change):
    if change == "replaced":
        place.write("precious", "an older one\n")
    place.write("other", "older\n")
    before = place.take().snapshot
    place.write("precious", "precious content\n")
    place.write("other", "newer\n")
    place.settle()
    place.take()
    damage(place, b"precious content\n")
    restored = place.store.restore(before.id)
    assert (place.root / "precious").read_text() == "precious content\n"
    assert (place.root / "other").read_text() == "older\n"
    ((path, why),) = [(note.path, note.why) for note in restored.skipped]
    assert path == b"precious"
    assert "its stored copy is damaged" in why


def test_a_damaged_folder_is_left_alone_with_everything_in_it(place, taken):
    damage(place, b"copy-of-bad")
    place.write("e/copy-of-bad", "live\n")
    place.write("e/more", "live\n")
    place.write("d/good", "changed\n")
    restored = place.store.restore(taken.id)
    assert (place.root / "e/copy-of-bad").read_text() == "live\n"
    assert (place.root / "e/more").read_text() == "live\n"
    assert (place.root / "d/good").read_text() == "good content\n"
    assert [note.path for note in restored.failed] == [b"e"]
    assert any(harm.path == b"e" for harm in place.store.verify().damaged_paths)


def test_a_damaged_chunk_harms_its_file(place, taken):
    damage(place, (place.root / "big").read_bytes()[300_000:300_020])
    assert [harm.path for harm in place.store.verify().damaged_paths] == [b"big"]


def test_a_pack_that_is_cut_short_or_gone_is_found(place, taken):
    (pack,) = os.listdir(place.folder / "packs")
    os.truncate(place.folder / "packs" / pack, os.stat(place.folder / "packs" / pack).st_size - 50)
    verified = place.store.verify()
    assert not verified.is_intact
    os.unlink(place.folder / "packs" / pack)
    verified = place.store.verify()
    assert len(verified.damaged_objects) == verified.objects
    assert [harm.path for harm in verified.damaged_paths] == [b""]


def test_a_snapshot_of_a_folder_whose_object_is_damaged_reads_it_again(place, taken):
    damage(place, b"copy-of-bad")
    place.write("e/more", "more\n")
    snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "e/copy-of-bad") == b"bad content\n"


def test_what_is_forgotten_is_stored_again_and_heals_old_snapshots(place, taken):
    damage(place, b"bad content\n")
    place.store.forget_damaged(place.store.verify())
    assert not place.store.verify().is_intact
    place.take()
    assert place.store.verify().is_intact
    assert place.store.read(taken.id, "d/bad") == b"bad content\n"


def test_collecting_keeps_damage_visible(place, taken):
    damage(place, b"bad content\n")
    os.unlink(place.root / "big")
    place.take()
    place.store.gc(keep=1)
    assert {harm.path for harm in place.store.verify().damaged_paths} == {b"d/bad", b"e/copy-of-bad"}


@pytest.mark.parametrize("change", ["half", "tail", "gone", "zeroed"])
@pytest.mark.parametrize("only_changed", [True, False])
def test_a_snapshot_after_a_pack_was_cut_short_is_whole(place, taken, change, only_changed):
    (pack,) = (place.folder / "packs").iterdir()
    size = pack.stat().st_size
    if change == "gone":
        pack.unlink()
    elif change == "zeroed":
        pack.write_bytes(bytes(size))
    else:
        os.truncate(pack, size // 2 if change == "half" else size - 50)
    made = place.take(only_changed=only_changed).snapshot
    for path, content in place.picture().items():
        if content[0] == "-":
            assert place.store.read(made.id, path) == content[2]
    place.write("another", "and the next one\n")
    later = place.take().snapshot
    assert place.store.read(later.id, "another") == b"and the next one\n"
    assert place.store.read(later.id, "d/bad") == b"bad content\n"
    harmed = {harm.snapshot.id for harm in place.store.verify().damaged_paths}
    assert not {made.id, later.id} & harmed


def test_an_index_that_is_an_empty_file_is_made_again(place, taken):
    place.store.close()
    for name in os.listdir(place.folder):
        if name.startswith("index.sqlite3"):
            os.unlink(place.folder / name)
    (place.folder / "index.sqlite3").touch()
    place.reopened()
    assert [each.id for each in place.store.list()] == [taken.id]
