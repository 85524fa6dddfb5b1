"""A disk without room is called that, whichever file of SQLite's found none: nobody is told to delete anything."""

import contextlib
import os
import sqlite3
import subprocess

import pytest

from toolyard.codemode.catalog import Catalog
from toolyard.core.errors import SystemFault
from toolyard.sharing.provenance import MergeOrigin, Provenance
from toolyard.snapshots import SnapshotStore
from toolyard.storage.disk_full import is_disk_full
from toolyard.storage.state_folder import ensure_state_dir

BYTES, FILES = "size=2m", "size=8m,nr_inodes=24"
OPENED = {
    "snapshots": lambda state: SnapshotStore(os.path.join(state, "snapshots")),
    "catalog": Catalog.open,
    "provenance": Provenance,
}


@pytest.fixture(params=[BYTES, FILES], ids=["bytes", "files"])
def disk(tmp_path, request):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk):
    """Until neither a byte nor a file more finds room."""
    with contextlib.suppress(OSError), open(disk / "ballast", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    with contextlib.suppress(OSError):
        for number in range(1_000):
            (disk / f"ballast-{number}").touch()


def clear(disk):
    for path in disk.glob("ballast*"):
        path.unlink()


@pytest.mark.parametrize("what", OPENED)
def test_a_full_disk_is_said_to_be_full_and_does_again_with_room(disk, what):
    state = ensure_state_dir(str(disk / "state"))
    OPENED[what](state).close()
    fill(disk)
    with pytest.raises(SystemFault, match="full") as fault:
        OPENED[what](state)
    assert "Free some space" in fault.value.hint
    clear(disk)
    OPENED[what](state).close()


@pytest.mark.parametrize("disk", [FILES], indirect=True)
def test_a_state_folder_that_finds_no_room_is_told_as_that(disk):
    fill(disk)
    with pytest.raises(SystemFault, match="No space left") as fault:
        ensure_state_dir(str(disk / "state"))
    assert fault.value.hint.startswith("Free some space")


@pytest.mark.parametrize("disk", [BYTES], indirect=True)
def test_what_cannot_be_recorded_of_a_merge_says_that_the_merge_stands(disk):
    with Provenance(str(disk / "state")) as provenance:
        fill(disk)
        many = [MergeOrigin("a", b"p" * 3_000, "b", b"p" * 3_000, "s", b"d", "taken") for _ in range(400)]
        with pytest.raises(SystemFault, match=r"disk is full\. What was merged stays merged"):
            provenance.record(many)
        clear(disk)
        provenance.record(many[:1])
        assert len(provenance.origins_of("a")) == 1


def test_a_database_that_may_not_be_opened_is_no_full_disk(tmp_path):
    with pytest.raises(sqlite3.OperationalError) as error:
        sqlite3.connect(tmp_path / "missing" / "x").execute("select 1")
    assert not is_disk_full(error.value, str(tmp_path / "x"))
    assert not is_disk_full(sqlite3.ProgrammingError("closed"), str(tmp_path / "x"))
