"""`bench snapshots`: what snapshots cost, beside `cp -r`, `cp -al` and git, measured in one run."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection

from benchmarks.benchmark import Bench, Sizes
from benchmarks.machine import describe
from benchmarks.report import Report, Row, at_most, at_most_times, beside
from benchmarks.rounds import interleaved, milliseconds
from benchmarks.snapshots.event_loop import measure_loop
from benchmarks.snapshots.fixture import (
    SMALL_BYTES,
    Tree,
    bytes_written,
    copying,
    git_tree,
    make_tree,
    stat_walk,
    timed,
)
from benchmarks.snapshots.forks import measure_fork
from toolyard.config.settings import Settings
from toolyard.snapshots import SnapshotStore

_MOST_COPIES = 5
"""Rounds in which whole trees are copied: each takes seconds."""
_WRITTEN_KILOBYTES = 1_000
_MANY = 10
_LINEAR = 1.3
"""Ten times the files may take this much more than ten times as long: caches are not endless."""


def measure_first(bench: Bench) -> list[Row]:
    tree = make_tree(bench, "tree", bench.sizes.tree_files)
    bench.say("first snapshots, cp and git")
    contenders = {
        "ours": timed(bench, lambda scratch: _take(scratch, tree)),
        "cp": timed(bench, copying(tree, "-r")),
        "links": timed(bench, copying(tree, "-al")),
        "git": timed(bench, git_tree(tree)),
    }
    figures = interleaved(contenders, min(bench.sizes.rounds, _MOST_COPIES))
    ours = figures["ours"]
    note = f"{tree.told}; ours is synced to disk, cp's copy is not"
    return [
        at_most_times("first snapshot, beside cp -r", "ms", ours, figures["cp"], 1.0, note=note),
        beside("first snapshot, beside cp -al", "ms", ours, figures["links"], note="links share later changes"),
        beside("first snapshot, beside git add + write-tree", "ms", ours, figures["git"]),
    ]


def measure_again(bench: Bench) -> list[Row]:
    tree = make_tree(bench, "tree", bench.sizes.tree_files)
    bench.say("unchanged trees, and one changed file")
    written: dict[str, list[int]] = {"unchanged": [], "changed": []}
    with SnapshotStore(os.path.join(bench.scratch, "store")) as store:
        store.create(tree.path)

        def take(name: str) -> None:
            before = bytes_written()
            store.create(tree.path)
            written[name].append(bytes_written() - before)

        def take_changed() -> float:
            with open(tree.one, "ab") as file:
                file.write(b"one more line\n")
            started = time.perf_counter()
            take("changed")
            return (time.perf_counter() - started) * 1e3

        contenders = {
            "walk": milliseconds(lambda: stat_walk(tree.path)),
            "unchanged": milliseconds(lambda: take("unchanged")),
            "changed": take_changed,
        }
        figures = interleaved(contenders, bench.sizes.rounds)
    rows: list[Row] = []
    for name, told in (("unchanged", "snapshot of an unchanged tree"), ("changed", "snapshot after one change")):
        kilobytes = statistics.median(written[name]) / 1e3
        rows += [
            at_most_times(f"{told}, beside a stat walk", "ms", figures[name], figures["walk"], 2.0, note=tree.told),
            at_most(f"{told}, written", "kB", kilobytes, _WRITTEN_KILOBYTES),
        ]
    return rows


def measure_restore(bench: Bench) -> list[Row]:
    tree = make_tree(bench, "tree", bench.sizes.tree_files)
    bench.say("restoring everything")
    with SnapshotStore(os.path.join(bench.scratch, "store")) as store:
        snapshot = store.create(tree.path).snapshot
        contenders = {
            "ours": timed(bench, lambda scratch: store.restore(snapshot.id, root=scratch)),
            "cp": timed(bench, copying(tree, "-r")),
        }
        figures = interleaved(contenders, min(bench.sizes.rounds, _MOST_COPIES))
    note = f"{tree.told} into an empty folder, every byte checked"
    return [at_most_times("restore, beside cp -r", "ms", figures["ours"], figures["cp"], 1.2, note=note)]


def measure_many(bench: Bench) -> list[Row]:
    few = make_tree(bench, "few", bench.sizes.tree_files, SMALL_BYTES)
    many = make_tree(bench, "many", bench.sizes.tree_files * _MANY, SMALL_BYTES)
    bench.say(f"snapshots of {many.files:,} files")
    contenders = {
        "first few": timed(bench, lambda scratch: _take(scratch, few)),
        "first many": timed(bench, lambda scratch: _take(scratch, many)),
    }
    figures = interleaved(contenders, min(bench.sizes.rounds, _MOST_COPIES - 2))
    with SnapshotStore(os.path.join(bench.scratch, "store")) as store:
        store.create(few.path)
        store.create(many.path)
        again = {
            "again few": milliseconds(lambda: store.create(few.path)),
            "again many": milliseconds(lambda: store.create(many.path)),
        }
        figures |= interleaved(again, bench.sizes.rounds)
    told = f"{many.files:,} files; the peer is {_MANY} times what {few.files:,} take"
    return [
        at_most_times(f"{what}, {_MANY} times the files", "ms", figures[f"{key} many"], peer, _LINEAR, note=told)
        for key, what in (("first", "first snapshot"), ("again", "snapshot of an unchanged tree"))
        for peer in (figures[f"{key} few"] * _MANY,)
    ]


def _take(scratch: str, tree: Tree) -> None:
    with SnapshotStore(os.path.join(scratch, "store")) as store:
        store.create(tree.path)


MEASURES: dict[str, Callable[[Bench], list[Row]]] = {
    "first": measure_first,
    "again": measure_again,
    "restore": measure_restore,
    "many": measure_many,
    "loop": measure_loop,
    "fork": measure_fork,
}


def run(sizes: Sizes, settings: Settings, say: Callable[[str], None], only: Collection[str] = ()) -> Report:
    """Measure all of it, or the measures named in `only`. Leaves nothing behind."""
    machine = describe()
    rows: list[Row] = []
    for name, measure in MEASURES.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory(dir=settings.temp_dir, prefix="toolyard-bench-") as scratch:
            rows += measure(Bench(sizes, scratch, settings, say))
    return Report(machine, tuple(rows))
