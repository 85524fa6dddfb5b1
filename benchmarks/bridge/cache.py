"""The cache of clients' files, in memory and in SQLite: a hit, ten thousand entries beside a hundred, a batch."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import statistics
import time
from collections.abc import Callable

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most, at_most_times, beside
from benchmarks.rounds import Measured, interleaved
from toolyard.bridge.cache import FileCache, NewFile

Opening = Callable[[int], FileCache]
"""A cache with nothing in it, for so many entries."""

_CONTENT = b"x" * 4_096
_HIT_MICROSECONDS = 20.0
_MOST_FILES = 1_000
"""Of a batch, and of those that hits are among."""
_MOST_ENTRIES = 10_000
_TIMES_FEWER = 100
_MOST_GROWTH = 2.0


def measure_hit(bench: Bench) -> list[Row]:
    files = _files(min(_MOST_FILES, bench.sizes.tree_files))
    bench.say(f"cache hits among {len(files):,} files")
    contenders: dict[str, Measured] = {}
    with contextlib.ExitStack() as opened:
        for kind, opening in _openings(bench).items():
            cache = opened.enter_context(opening(len(files)))
            cache.put_all(files)
            contenders[kind] = _each(_gets(cache, files), bench.sizes.loops)
        figures = interleaved(contenders, bench.sizes.rounds)
    told = f"median of single calls, each for another of {len(files):,} files of {len(_CONTENT):,} bytes"
    return [
        at_most("cache hit in memory", "µs", figures["memory"], _HIT_MICROSECONDS, note=told),
        beside("cache hit in SQLite, beside memory", "µs", figures["SQLite"], figures["memory"], note=told),
    ]


def measure_entries(bench: Bench) -> list[Row]:
    many = min(_MOST_ENTRIES, bench.sizes.tree_files)
    few = max(1, many // _TIMES_FEWER)
    rows: list[Row] = []
    for kind, opening in _openings(bench).items():
        for what, calls in (("get", _gets), ("put", _puts)):
            bench.say(f"{what} with {many:,} entries beside {few:,}, in {kind}")
            contenders: dict[str, Measured] = {}
            with contextlib.ExitStack() as opened:
                for entries in (many, few):
                    cache = opened.enter_context(opening(entries))
                    cache.put_all(_files(entries))
                    contenders[str(entries)] = _each(calls(cache, _files(entries)), bench.sizes.loops)
                figures = interleaved(contenders, bench.sizes.rounds)
            name, note = f"{what} with {many:,} entries, in {kind}", f"the peer has {few:,}; both are full"
            ours, peer = figures[str(many)], figures[str(few)]
            if kind == "memory":
                rows.append(at_most_times(name, "µs", ours, peer, _MOST_GROWTH, note=note))
            else:
                rows.append(beside(name, "µs", ours, peer, note=note))
    return rows


def measure_batch(bench: Bench) -> list[Row]:
    files = _files(min(_MOST_FILES, bench.sizes.tree_files))
    rows: list[Row] = []
    for kind, opening in _openings(bench).items():
        bench.say(f"a batch of {len(files):,} files, in {kind}")
        contenders = {
            "batch": _into_empty(opening, len(files), lambda cache: cache.put_all(files)),
            "single": _into_empty(
                opening, len(files), lambda cache: [cache.put(file.path, file.content) for file in files]
            ),
        }
        figures = interleaved(contenders, bench.sizes.rounds)
        name = f"batch of {len(files):,} files, in {kind}, beside single puts"
        note = f"{len(_CONTENT):,} bytes each, into an empty cache"
        rows.append(beside(name, "ms", figures["batch"], figures["single"], note=note))
    return rows


def _openings(bench: Bench) -> dict[str, Opening]:
    numbers = itertools.count()

    def in_sqlite(entries: int) -> FileCache:
        return FileCache.in_sqlite(os.path.join(bench.scratch, f"{next(numbers)}.sqlite3"), max_entries=entries)

    return {"memory": lambda entries: FileCache(max_entries=entries), "SQLite": in_sqlite}


def _files(count: int) -> list[NewFile]:
    return [NewFile(f"src/package/module_{number}.py", _CONTENT) for number in range(count)]


def _gets(cache: FileCache, files: list[NewFile]) -> Callable[[], object]:
    """Another one each time, in no order."""
    paths = [file.path for file in files]
    random.Random(1).shuffle(paths)
    going = itertools.cycle(paths)
    return lambda: cache.get(next(going))


def _puts(cache: FileCache, files: list[NewFile]) -> Callable[[], object]:
    """A new one each time: another one goes for it."""
    numbers = itertools.count(len(files))
    return lambda: cache.put(f"src/package/module_{next(numbers)}.py", _CONTENT)


def _each(work: Callable[[], object], count: int) -> Measured:
    """The median of `count` runs, in microseconds: what interrupts a few of them does not count."""

    def timed() -> float:
        taken: list[float] = []
        for _ in range(count):
            started = time.perf_counter()
            work()
            taken.append(time.perf_counter() - started)
        return statistics.median(taken) * 1e6

    return timed


def _into_empty(opening: Opening, entries: int, work: Callable[[FileCache], object]) -> Measured:
    """One run of `work` in milliseconds, without what it takes to open the cache and to close it."""

    def timed() -> float:
        with opening(entries) as cache:
            started = time.perf_counter()
            work(cache)
            return (time.perf_counter() - started) * 1e3

    return timed
