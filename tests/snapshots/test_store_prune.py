"""Old snapshots go, what others need stays, and the room comes back."""

import os
import time

from toolyard.snapshots.store import prune
from toolyard.snapshots.store.prune import expired_snapshots


def packed(place):
    folder = place.folder / "packs"
    return sum(os.stat(folder / name).st_size for name in os.listdir(folder))


def take_some(place, count=5, size=300_000):
    taken = []
    for _ in range(count):
        place.write("big", os.urandom(size))
        place.write("same", b"the same")
        taken.append(place.take().snapshot)
    return taken


def test_the_newest_stay_whole_and_the_room_comes_back(place):
    taken = take_some(place)
    wanted = [place.store.read(one.id, "big") for one in taken[-2:]]
    before = packed(place)

    collected = place.store.gc(keep=2)

    assert [one.id for one in collected.snapshots] == [one.id for one in reversed(taken[:3])]
    assert [one.id for one in place.store.list()] == [one.id for one in reversed(taken[-2:])]
    assert [place.store.read(one.id, "big") for one in taken[-2:]] == wanted
    assert place.store.read(taken[-1].id, "same") == b"the same"
    assert packed(place) < before - 500_000
    assert collected.bytes_freed > 500_000
    assert place.store.verify().is_intact


def test_a_snapshot_after_a_collection_is_whole(place):
    """What was seen must not name what is gone."""
    take_some(place, 3)
    place.settle()
    last = place.take().snapshot
    place.store.gc(keep=0)
    assert place.store.list() == [last]
    snapshot = place.take().snapshot
    assert place.store.read(snapshot.id, "same") == b"the same"
    assert place.store.verify().is_intact


def test_young_snapshots_stay_whatever_their_number(place):
    take_some(place, 3)
    assert place.store.gc(keep=1, newer_than=3600).snapshots == ()
    assert len(place.store.gc(newer_than=0.0).snapshots) == 2


def test_each_folder_keeps_its_own(place, tmp_path):
    (tmp_path / "other").mkdir()
    other = place.store.create(str(tmp_path / "other")).snapshot
    taken = take_some(place, 3)
    gone = expired_snapshots(place.store.list(), 1, None)
    assert {one.id for one in gone} == {taken[0].id, taken[1].id}
    assert other.id not in {one.id for one in gone}


def test_without_conditions_nothing_that_is_needed_goes(place):
    taken = take_some(place, 2)
    assert place.store.gc().snapshots == ()
    assert len(place.store.list()) == 2
    assert place.store.read(taken[0].id, "same") == b"the same"


def test_a_pack_that_is_mostly_needed_is_not_copied(place):
    place.write("needed", os.urandom(1_000_000))
    take_some(place, 2, size=1_000)
    before = sorted(os.listdir(place.folder / "packs"))
    place.store.gc(keep=1)
    assert sorted(os.listdir(place.folder / "packs")) == before


def test_packs_are_followed_by_others_and_numbers_never_come_again(place):
    place.reopened(pack_bytes=100_000)
    taken = take_some(place, 4)
    assert len(os.listdir(place.folder / "packs")) >= 4
    last = max(os.listdir(place.folder / "packs"))
    os.unlink(place.root / "big")
    place.take()
    place.store.gc(keep=0)
    place.take()
    assert max(os.listdir(place.folder / "packs")) > last
    assert taken


def test_a_reader_that_meets_a_collection_asks_again(place, monkeypatch):
    taken = take_some(place)
    content = place.store.read(taken[-1].id, "big")
    with place.store.reader() as reader:
        real = reader._packs.read
        calls = []

        def read(where, digest):
            if not calls:
                calls.append(where)
                place.store.gc(keep=1)
            return real(where, digest)

        monkeypatch.setattr(reader._packs, "read", read)
        (entry,) = (one for one in reader.entries(taken[-1].tree) if one.name == b"big")
        assert reader.content(entry) == content
    assert calls


def test_a_collection_that_is_given_up_half_way_loses_nothing(place, monkeypatch):
    taken = take_some(place)
    content = place.store.read(taken[-1].id, "big")
    real = prune._copy_objects

    def copy(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(prune, "_copy_objects", copy)
    try:
        place.store.gc(keep=1)
    except KeyboardInterrupt:
        monkeypatch.undo()
    assert place.store.read(taken[-1].id, "big") == content
    assert place.store.verify().is_intact
    assert packed(place) > 1_000_000
    place.store.gc(keep=1)
    assert packed(place) < 400_000
    assert place.store.read(taken[-1].id, "big") == content


def test_age_is_counted_from_when_a_snapshot_was_taken(place):
    first, newest = take_some(place, 2)
    assert expired_snapshots([newest, first], None, first.time_ns) == []
    assert expired_snapshots([newest, first], None, time.time_ns()) == [first]


def test_the_newest_of_each_folder_always_stays(place, tmp_path):
    (tmp_path / "other").mkdir()
    other = place.store.create(str(tmp_path / "other")).snapshot
    taken = take_some(place, 3)
    place.store.gc(keep=0, newer_than=0.0)
    assert place.store.list() == [taken[-1], other]
