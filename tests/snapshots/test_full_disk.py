"""A full disk fails one snapshot cleanly: the others are whole, and the room it took comes back."""

import contextlib
import os
import subprocess
import sys

import pytest

from toolyard.core.errors import SystemFault
from toolyard.snapshots import SnapshotStore

ROOM_FOR_A_PACK = 280_000
"""Enough for the folder's pages, not for the index of so many objects as well."""


def test_a_full_disk_leaves_the_old_snapshots_and_the_room(place, small_disk):
    place.write("f", "small\n")
    with SnapshotStore(str(small_disk / "state")) as store:
        first = store.create(str(place.root)).snapshot
        packs = small_disk / "state" / "packs"
        before = {name: os.stat(packs / name).st_size for name in os.listdir(packs)}
        place.write("huge", os.urandom(4_000_000))
        place.write("f", "changed\n")
        for _ in range(3):
            with pytest.raises(SystemFault, match="disk is full"):
                store.create(str(place.root))
        assert {name: os.stat(packs / name).st_size for name in os.listdir(packs)} == before
        assert store.list() == [first]
        assert store.verify().is_intact
        assert store.read(first.id, "f") == b"small\n"
        os.unlink(place.root / "huge")
        assert store.read(store.create(str(place.root)).snapshot.id, "f") == b"changed\n"


def test_a_disk_too_full_for_the_index_leaves_the_old_snapshots(place, small_disk):
    with SnapshotStore(str(small_disk / "state")) as store:
        place.write("f", "x")
        first = store.create(str(place.root)).snapshot
        ballast = os.open(small_disk / "ballast", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(ballast, b"x" * 4096):
                pass
        os.ftruncate(ballast, os.fstat(ballast).st_size - ROOM_FOR_A_PACK)
        os.close(ballast)
        for number in range(2_000):
            place.write(f"many/{number}-{'n' * 50}", b"")
        with pytest.raises(SystemFault, match="disk is full"):
            store.create(str(place.root))
        assert store.list() == [first]
        os.unlink(small_disk / "ballast")
        assert store.create(str(place.root)).snapshot.counts.files == 2_001
        assert store.verify().is_intact


def fill(disk):
    """Until neither a byte nor a file more finds room."""
    with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_a_store_on_a_disk_without_room_is_not_taken_for_a_broken_one(place, small_disk):
    place.write("f", "x")
    with SnapshotStore(str(small_disk / "state")) as store:
        first = store.create(str(place.root)).snapshot
    fill(small_disk)
    with pytest.raises(SystemFault, match=r"disk is full.*Free some space"):
        SnapshotStore(str(small_disk / "state"))
    os.unlink(small_disk / "ballast")
    with SnapshotStore(str(small_disk / "state")) as store:
        assert store.list() == [first]


LIMITED = """
import os, resource, sys
from toolyard.core.errors import SystemFault
from toolyard.snapshots import SnapshotStore
root, folder = sys.argv[1:]
with SnapshotStore(folder) as store:
    first = store.create(root).snapshot
    with open(root + "/huge", "wb") as file:
        file.write(os.urandom(3_000_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    try:
        store.create(root)
    except SystemFault as fault:
        print(fault.message)
    print(store.list() == [first], store.verify().is_intact)
"""


def test_a_limit_on_the_size_of_files_is_a_full_disk(place):
    place.write("f", "x")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(place.root), str(place.folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    said = ["The disk is full; the snapshots taken so far are intact.", "True True"]
    assert done.stdout.splitlines() == said, done.stderr
