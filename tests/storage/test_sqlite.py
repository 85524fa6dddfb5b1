"""Databases that several connections of one process and other processes use at once."""

import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from toolyard.codemode.catalog import Catalog
from toolyard.sharing.provenance import Provenance
from toolyard.snapshots.store.index import Index
from toolyard.storage.sqlite import create_private_file, enable_wal

IN_ANOTHER_PROCESS = """
import sys
from contextlib import closing
from toolyard.codemode.catalog import Catalog
from toolyard.sharing.provenance import Provenance
from toolyard.snapshots.store.index import Index
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
    create_private_file(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("content")
    create_private_file(str(path))
    assert path.read_text() == "content"
    assert os.listdir(tmp_path) == ["db"]


class Busy:
    """A connection that others keep from its log some times, or for good."""

    def __init__(self, times: float, code: int = sqlite3.SQLITE_BUSY) -> None:
        self.left, self.code = times, code

    def execute(self, statement: str) -> None:
        self.left -= 1
        if self.left >= 0:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY])
def test_a_log_that_others_are_just_making_or_clearing_away_is_waited_for(code):
    connection = Busy(2, code)
    enable_wal(connection, 30)
    assert connection.left == -1


def test_a_log_is_waited_for_no_longer_than_said_and_no_other_error_is_waited_out():
    with pytest.raises(sqlite3.OperationalError):
        enable_wal(Busy(float("inf")), 0.01)
    full = Busy(1, sqlite3.SQLITE_FULL)
    with pytest.raises(sqlite3.OperationalError):
        enable_wal(full, 30)
    assert full.left == 0
