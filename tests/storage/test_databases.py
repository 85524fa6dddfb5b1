"""Databases that several connections of one process and other processes use at once."""

import os
import stat
import subprocess
import sys

import pytest

from toolyard.codemode.catalog import Catalog
from toolyard.storage.databases import make_private
from toolyard.workspace.sharing.provenance import Provenance
from toolyard.workspace.snapshots.index import Index

IN_ANOTHER_PROCESS = """
import sys
from contextlib import closing
from toolyard.codemode.catalog import Catalog
from toolyard.workspace.sharing.provenance import Provenance
from toolyard.workspace.snapshots.index import Index
what, place = sys.argv[1:]
with closing(Catalog.open(place) if what == "Catalog" else {"Index": Index, "Provenance": Provenance}[what](place)):
    pass
"""


@pytest.mark.parametrize(("what", "make"), [("Index", Index), ("Catalog", Catalog.open), ("Provenance", Provenance)])
def test_a_second_connection_keeps_the_locks_of_the_first(tmp_path, what, make):
    """A process that takes itself for the last one removes the log, and the first connection reads what is not so."""
    place = str(tmp_path / "index") if what == "Index" else str(tmp_path)
    with make(place), make(place):
        logs = {path: path.stat().st_ino for path in tmp_path.rglob("*-wal")}
        assert logs
        subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, what, place], check=True, timeout=50)
        assert {path: path.stat().st_ino for path in tmp_path.rglob("*-wal")} == logs


def test_a_new_file_is_private_and_one_that_is_there_stays(tmp_path):
    path = tmp_path / "db"
    make_private(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("content")
    make_private(str(path))
    assert path.read_text() == "content"
    assert os.listdir(tmp_path) == ["db"]
