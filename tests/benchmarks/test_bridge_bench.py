"""The benchmark of the bridge: what it measures, what it holds to a target, and that nothing is left of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench as command
from benchmarks.benchmark import Sizes
from benchmarks.bridge import cache as bridge_cache
from benchmarks.bridge import suite
from tests.benchmarks.conftest import nothing_left

TINY = Sizes(rounds=1, tree_files=200, calls=2, starts=1, loops=5)


def measured(settings, only):
    with nothing_left(settings):
        rows = suite.run(TINY, settings, lambda _: None, {only}).rows
    assert all(row.ours > 0 for row in rows), rows
    return {row.name: row for row in rows}


def test_a_hit_in_memory_is_held_to_a_target_and_one_in_sqlite_beside_it(settings):
    rows = measured(settings, "hit")
    assert {name: row.target for name, row in rows.items()} == {
        "cache hit in memory": "≤ 20 µs",
        "cache hit in SQLite, beside memory": "",
    }
    in_memory, in_sqlite = rows.values()
    assert in_sqlite.peer == in_memory.ours
    assert all("another of 200 files" in row.note for row in rows.values())


def test_many_entries_are_measured_beside_a_hundredth_of_them(settings):
    rows = measured(settings, "entries")
    assert {name: row.target for name, row in rows.items()} == {
        "get with 200 entries, in memory": "≤ 2x",
        "put with 200 entries, in memory": "≤ 2x",
        "get with 200 entries, in SQLite": "",
        "put with 200 entries, in SQLite": "",
    }
    assert all(row.peer > 0 and "the peer has 2;" in row.note for row in rows.values())


def test_a_batch_is_measured_beside_single_puts(settings):
    rows = measured(settings, "batch")
    assert list(rows) == [f"batch of 200 files, in {kind}, beside single puts" for kind in ("memory", "SQLite")]
    assert all(row.peer > 0 for row in rows.values())


@pytest.mark.parametrize("calls", [bridge_cache._gets, bridge_cache._puts])
def test_what_is_timed_are_hits_and_puts_for_which_another_file_goes(calls):
    files = bridge_cache._files(4)
    with bridge_cache.FileCache(max_entries=4) as cache:
        cache.put_all(files)
        work = calls(cache, files)
        for _ in range(12):
            work()
        told = cache.statistics
    assert (told.entries, told.misses) == (4, 0)
    assert {bridge_cache._gets: told.hits, bridge_cache._puts: told.evictions}[calls] == 12


def test_what_interrupts_a_few_calls_does_not_count(monkeypatch):
    times = iter([0.0, 2.0, 10.0, 19.0, 20.0, 22.0])
    monkeypatch.setattr(bridge_cache, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    assert bridge_cache._each(lambda: None, 3)() == 2e6


def test_the_command_names_its_measures():
    told = " ".join(CliRunner().invoke(command, ["bridge", "--help"]).output.split())
    assert "hit, entries, batch" in told
    assert "toolyard bench bridge --quick" in told


@pytest.mark.slow
def test_files_are_handed_over_to_a_real_server(settings):
    rows = measured(settings, "served")
    told, batch, read = rows.values()
    assert (told.name, told.target) == ("the error for a client without sampling", "≤ 100 ms")
    assert batch.name == "guide_cache_file of 200 files in one call, beside 200 calls"
    assert min(batch.ours, batch.peer, read.ours) > 0
