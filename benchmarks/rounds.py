"""Fair timing on a busy machine: contenders take turns, round by round, and the median of each is kept.

Whatever slows the machine for a while slows all of them. Every second round runs in the opposite order, so that none
of them always comes after the same neighbour.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Measured = Callable[[], float]


def interleaved(contenders: Mapping[str, Measured], rounds: int) -> dict[str, float]:
    """The median of what each contender reports. One round before the count warms caches and is thrown away."""
    names = list(contenders)
    results: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        contenders[name]()
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            results[name].append(contenders[name]())
    return {name: statistics.median(values) for name, values in results.items()}


def milliseconds(work: Callable[[], object]) -> Measured:
    """A contender that takes one run of `work`."""

    def timed() -> float:
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) * 1e3

    return timed


def microseconds_each(work: Callable[[], object], count: int) -> Measured:
    """A contender that takes the time of one of `count` runs of `work`."""

    def timed() -> float:
        started = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - started) / count * 1e6

    return timed
