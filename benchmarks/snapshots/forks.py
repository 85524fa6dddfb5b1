"""What a fork costs, of a small tree and of one ten times as big, beside copying it."""

from __future__ import annotations

import os
import time

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most, beside
from benchmarks.rounds import Measured, interleaved, milliseconds
from benchmarks.snapshots.fixture import Tree, copying, make_tree, timed
from toolyard.snapshots import SnapshotStore
from toolyard.snapshots.forks import ForkKind, Forks

_FORK_MILLISECONDS = 5.0
_TIMES = 10
_MOST_COPIES = 3


def measure_fork(bench: Bench) -> list[Row]:
    few = make_tree(bench, "few", max(1, bench.sizes.tree_files // _TIMES))
    many = make_tree(bench, "many", bench.sizes.tree_files)
    with (
        SnapshotStore(os.path.join(bench.scratch, "store")) as store,
        Forks(os.path.join(bench.scratch, "forks"), store) as forks,
    ):
        bench.say("writing out the trees that forks stand on")
        names = {tree.path: store.create(tree.path).snapshot.id for tree in (few, many)}
        forks.prepare(names[few.path])
        written = milliseconds(lambda: forks.prepare(names[many.path]))()
        bench.say("forks")
        with forks.fork(names[many.path]) as fork:
            how = fork.kind
        contenders = {
            "few": _forking(forks, names[few.path]),
            "many": _forking(forks, names[many.path]),
            "changes": _changing(forks, names[many.path], many),
        }
        rounds = bench.sizes.rounds if how.is_overlay else _MOST_COPIES
        figures = interleaved(contenders, rounds)
        copied = interleaved({"cp": timed(bench, copying(many, "-r"))}, min(rounds, _MOST_COPIES))["cp"]
    note = _told(how)
    return [
        *(
            at_most(f"fork of {tree.files:,} files", "ms", figures[key], _FORK_MILLISECONDS, peer=peer, note=note)
            for tree, key, peer in ((few, "few", None), (many, "many", copied))
        ),
        beside("what changed in a fork, beside cp -r", "ms", figures["changes"], copied, note="one file of it"),
        beside("writing out a tree, once, beside cp -r", "ms", written, copied, note=f"{many.told}, synced to disk"),
    ]


def _forking(forks: Forks, name: str) -> Measured:
    def run() -> float:
        started = time.perf_counter()
        fork = forks.fork(name)
        took = (time.perf_counter() - started) * 1e3
        fork.close()
        return took

    return run


def _changing(forks: Forks, name: str, tree: Tree) -> Measured:
    inside = os.path.relpath(tree.one, tree.path)

    def run() -> float:
        with forks.fork(name) as fork:
            with open(os.path.join(fork.path, inside), "ab") as file:
                file.write(b"one more line\n")
            started = time.perf_counter()
            fork.changes()
            return (time.perf_counter() - started) * 1e3

    return run


def _told(how: ForkKind) -> str:
    kinds = {
        ForkKind.MOUNTED: "an overlay",
        ForkKind.HELD: "an overlay in namespaces of its own",
        ForkKind.SHARED: "a copy that shares its blocks",
        ForkKind.COPIED: "a plain copy",
    }
    return f"{kinds[how]}, over a tree that was written out before; the peer is cp -r"
