"""Many agents on one machine: how much they slow each other down, and the memory that an idle one takes."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.benchmark import Bench
from benchmarks.processes import descendants, proportional_kb
from benchmarks.report import Row, at_most, at_most_times, skipped
from benchmarks.rounds import milliseconds
from benchmarks.sandbox.fixture import Subject, chosen

AGENTS = 8
_CORES = 2
_FACTOR = 2.0
_THINK_SECONDS = (0.02, 0.05)
_CALLS_PART = 40  # of the calls that a measure over stdio makes in a round
_FEWEST_TURNS = 3
_MEMORY_MB = 25.0
_KB_IN_MB = 1024
_MEMORY = "memory of an idle agent"
_WORK: dict[str, Callable[[Subject], None]] = {"bash true": Subject.command, "1+1": Subject.python}


def measure_agents(bench: Bench) -> list[Row]:
    bench.say(f"{AGENTS} agents at once")
    with _on_few_cores() as cores, _agents(bench, AGENTS) as agents:
        return [_together(bench, agents, what, work, cores) for what, work in _WORK.items()]


def measure_memory(bench: Bench) -> list[Row]:
    bench.say("looking at the memory of idle agents")
    rows: list[Row] = []
    for count in (1, AGENTS):
        with _agents(bench, count):
            try:
                megabytes = proportional_kb(descendants(os.getpid())) / _KB_IN_MB / count
            except PermissionError:
                return [skipped(_MEMORY, "MB", "this user may not read the memory figures of the sandbox")]
        note = "PSS of all its processes: bubblewrap, warden, spare worker"
        if count == 1:
            rows.append(at_most(f"{_MEMORY}, alone", "MB", megabytes, _MEMORY_MB, note=note))
        else:
            rows.append(Row(f"{_MEMORY}, one of {count}", "MB", megabytes, note="shared pages count in parts"))
    return rows


@contextlib.contextmanager
def _agents(bench: Bench, count: int) -> Generator[list[Subject]]:
    choice = chosen()
    with contextlib.ExitStack() as open_ones:
        agents = [
            open_ones.enter_context(Subject(bench.folder(f"agent {number} of {count}"), choice))
            for number in range(count)
        ]
        for agent in agents:
            agent.python()
        agents[-1].settle()  # the others settle meanwhile
        yield agents


def _together(bench: Bench, agents: Sequence[Subject], what: str, work: Callable[[Subject], None], cores: int) -> Row:
    """The agent that suffers most. Alone and together take turns, so that both meet the same machine."""
    turns = max(_FEWEST_TURNS, bench.sizes.calls // _CALLS_PART)
    alone: list[list[float]] = [[] for _ in agents]
    together: list[list[float]] = [[] for _ in agents]
    with ThreadPoolExecutor(len(agents)) as threads:
        for _ in range(bench.sizes.rounds):
            for agent, taken in zip(agents, alone, strict=True):
                taken += threads.submit(_at_work, agent, work, turns).result()
            jobs = [threads.submit(_at_work, agent, work, turns) for agent in agents]
            for job, taken in zip(jobs, together, strict=True):
                taken += job.result()
    medians = [(statistics.median(a), statistics.median(t)) for a, t in zip(alone, together, strict=True)]
    mine, crowded = max(medians, key=lambda pair: pair[1] / pair[0])
    low, high = (f"{seconds * 1e3:.0f}" for seconds in _THINK_SECONDS)
    note = (
        f"median of the agent that suffers most, the peer is the same agent alone; each runs {what},"
        f" thinks {low} to {high} ms and repeats; all on {cores} cores"
    )
    return at_most_times(f"{len(agents)} agents at once, {what}", "ms", crowded, mine, _FACTOR, note=note)


def _at_work(agent: Subject, work: Callable[[Subject], None], turns: int) -> list[float]:
    timed = milliseconds(lambda: work(agent))
    taken: list[float] = []
    for _ in range(turns):
        time.sleep(random.uniform(*_THINK_SECONDS))
        taken.append(timed())
    return taken


@contextlib.contextmanager
def _on_few_cores() -> Generator[int]:
    """Keep this thread, and the threads and processes it starts from now on, on the cores the target speaks of."""
    before = os.sched_getaffinity(0)
    few = set(sorted(before)[:_CORES])
    os.sched_setaffinity(0, few)
    try:
        yield len(few)
    finally:
        os.sched_setaffinity(0, before)
