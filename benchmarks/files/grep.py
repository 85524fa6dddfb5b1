"""Grep beside plain ripgrep (the same binary): on a large tree, and on one file for the fixed cost."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable

from benchmarks.benchmark import Bench
from benchmarks.lean_client import Wire
from benchmarks.report import Row, at_most, at_most_times
from benchmarks.rounds import interleaved, milliseconds
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.calls import Call
from toolyard.files.search.ripgrep import find_ripgrep

_FACTOR = 1.3
_FIXED_MS = 5.0
_FILES_IN_A_FOLDER = 100
_LINES = 60
_RARE_EVERY = 100
"""One file in so many holds the rare word; one in two holds the common one."""
_RARE, _COMMON = "needle_[0-9]+", "harbour_[0-9]+"
_PLAIN = {"files_with_matches": ("-l",), "content": ("-n", "--heading")}


def measure(bench: Bench) -> list[Row]:
    bench.say(f"making a tree of {bench.sizes.tree_files:,} files")
    tree, single = bench.folder("tree"), bench.folder("single")
    make_tree(tree, bench.sizes.tree_files)
    make_tree(single, 1)
    rows: list[Row] = []
    for pattern, found in ((_RARE, f"1 file in {_RARE_EVERY} matches"), (_COMMON, "every second file matches")):
        for mode in _PLAIN:
            bench.say(f"searching the tree: {mode}, {found}")
            figures = _figures(bench, tree, pattern, mode)
            for how in ("in process", "over stdio"):
                name = f"Grep {mode}, {how}"
                rows.append(
                    at_most_times(name, "ms", figures[how], figures["rg"], _FACTOR, plus=_FIXED_MS, note=found)
                )
    bench.say("searching one file")
    figures = _figures(bench, single, _RARE, "content")
    for how in ("in process", "over stdio"):
        fixed = figures[how] - figures["rg"]
        note = f"a tree of one file: {figures[how]:.2f} ms beside rg's {figures['rg']:.2f} ms"
        rows.append(at_most(f"Grep fixed cost, {how}", "ms", fixed, _FIXED_MS, note=note))
    return rows


def make_tree(folder: str, files: int) -> None:
    """Text files of about 2.5 kB, a hundred to a folder."""
    for number in range(files):
        below = os.path.join(folder, f"part{number // _FILES_IN_A_FOLDER:04}")
        os.makedirs(below, exist_ok=True)
        words = [f"    value_{number}_{line} = compute({line}, 'row {line}')" for line in range(_LINES)]
        if number % _RARE_EVERY == 0:
            words[_LINES // 2] = f"    needle_{number} = 1"
        if number % 2 == 0:
            words[_LINES // 3] = f"    harbour_{number} = 2"
        with open(os.path.join(below, f"module{number:05}.py"), "w", encoding="utf-8") as file:
            file.write("\n".join(words) + "\n")


def _figures(bench: Bench, tree: str, pattern: str, mode: str) -> dict[str, float]:
    arguments = {"pattern": pattern, "output_mode": mode}
    options = YardOptions(tree, Config(), bench.settings, state_home=os.path.join(bench.scratch, "state"))
    with Yard.open(options) as yard, asyncio.Runner() as runner, Wire(bench.server(tree)) as wire:
        contenders = {
            "rg": milliseconds(_plain(tree, pattern, mode)),
            "in process": milliseconds(lambda: runner.run(yard.dispatch(Call("Grep", arguments, "bench")))),
            "over stdio": milliseconds(lambda: wire.sequential("Grep", [arguments])),
        }
        return interleaved(contenders, bench.sizes.rounds)


def _plain(tree: str, pattern: str, mode: str) -> Callable[[], object]:
    command = (find_ripgrep(), *_PLAIN[mode], pattern, "./")

    def run() -> object:
        return subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    return run
