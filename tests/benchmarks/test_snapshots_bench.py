from __future__ import annotations

import pytest

from benchmarks.benchmark import Sizes
from benchmarks.lean_client import BenchFault
from benchmarks.snapshots import suite
from benchmarks.snapshots.fixture import command, stat_walk
from tests.benchmarks.conftest import nothing_left

TINY = Sizes(rounds=1, tree_files=60, calls=2, starts=1, loops=2)


def measured(settings, only):
    with nothing_left(settings):
        rows = suite.run(TINY, settings, lambda _: None, {only}).rows
    return {row.name: row for row in rows}


def targets(rows):
    return {name: row.target for name, row in rows.items()}


def test_the_first_snapshot_is_measured_beside_copies_and_git(settings):
    rows = measured(settings, "first")
    assert targets(rows) == {
        "first snapshot, beside cp -r": "≤ 1x",
        "first snapshot, beside cp -al": "",
        "first snapshot, beside git add + write-tree": "",
    }
    assert all(row.ours > 0 and row.peer > 0 for row in rows.values())


def test_further_snapshots_are_measured_beside_a_walk_and_by_what_they_write(settings):
    rows = measured(settings, "again")
    assert list(targets(rows).values()) == ["≤ 2x", "≤ 1000 kB"] * 2
    written = [row.ours for name, row in rows.items() if name.endswith("written")]
    assert all(0 < kilobytes < 1_000 for kilobytes in written)


def test_restoring_is_measured_beside_a_copy(settings):
    rows = measured(settings, "restore")
    assert targets(rows) == {"restore, beside cp -r": "≤ 1.2x"}


def test_ten_times_the_files_are_measured_beside_ten_times_the_time(settings):
    rows = measured(settings, "many")
    assert list(targets(rows).values()) == ["≤ 1.3x", "≤ 1.3x"]
    assert all("600 files" in row.note for row in rows.values())


def test_the_walk_sees_everything(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("")
    assert stat_walk(str(tmp_path)) == 3


def test_a_peer_that_fails_is_no_figure():
    with pytest.raises(BenchFault, match="cp -r"):
        command("cp", "-r", "/nowhere/at/all", "/nowhere/else")
    with pytest.raises(BenchFault, match="is not installed"):
        command("a-program-that-does-not-exist")


def test_an_event_loop_is_measured_beside_snapshots(settings):
    rows = measured(settings, "loop")
    assert targets(rows) == {
        "event loop blocked by the first snapshot": "≤ 50 ms",
        "event loop blocked by a snapshot after a change": "≤ 50 ms",
        "first Write, with its snapshot": "",
    }


def test_forks_are_measured_whatever_their_size(settings):
    rows = measured(settings, "fork")
    assert list(targets(rows).items())[:2] == [("fork of 6 files", "≤ 5 ms"), ("fork of 60 files", "≤ 5 ms")]
    assert all(row.ours > 0 for row in rows.values())
