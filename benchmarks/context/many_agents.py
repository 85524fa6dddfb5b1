"""A hundred agents at once, against a model that answers at once: how long, how much, and what is left of it.

The run has a process of its own (`python -m benchmarks.context.many_agents`), so that its memory, its threads and its
descriptors are those of a run and of nothing else. In each turn but its last an agent writes a file, so that there
are snapshots, and each is shared with all the others.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import cast

from benchmarks.benchmark import Bench
from benchmarks.context.fixture import Heard, ModelProgram, Step, Team
from benchmarks.lean_client import BenchFault
from benchmarks.module_process import module_command
from benchmarks.report import Row, at_most
from toolyard.config.settings import Settings
from toolyard.team.events import Answered, RunStarted

TURNS = 4
_LINES = 20
_LOOK_SECONDS = 0.1
_MOST_SECONDS = 900
_SHOWN_CHARS = 600
_KB_IN_MB = 1024
_WRITING = "each but the last with a file written"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run. Seconds, and MB."""

    opening: float
    """From the start to the first agent's. The providers' libraries are imported here."""
    working: float
    """From there to the last answer."""
    ending: float
    """From there until everything was closed and the report written."""
    processor: float
    turns: int
    memory: float
    threads: int
    descriptors: int
    threads_left: int
    descriptors_left: int
    answers: int
    shared: int
    """Agents whose files their peers see."""


def measure_agents(bench: Bench) -> list[Row]:
    size = bench.sizes.agents
    bench.say(f"{size} agents at once")
    folder, temporary = bench.folder("team"), bench.folder("temp")
    content = "a line of work\n" * _LINES
    steps: list[Step] = [
        {"call": "Write", "arguments": {"file_path": f"part{number}.txt", "content": content}}
        for number in range(TURNS - 1)
    ]
    with ModelProgram(bench.folder("model"), steps) as model:
        figures = _in_a_process(folder, size, model.access, temporary)
    return rows_of(size, figures, left=len(os.listdir(temporary)))


def rows_of(size: int, figures: Figures, *, left: int) -> list[Row]:
    """`left` is how many files lie in the temporary folder after it."""
    whole = figures.opening + figures.working + figures.ending
    parts = (
        f"opening {figures.opening:.1f} s, {TURNS} turns of each {figures.working:.1f} s,"
        f" closing and report {figures.ending:.1f} s; {figures.processor:.1f} s of processor time"
    )
    told = f"{figures.threads_left} threads, {figures.descriptors_left} descriptors, {left} temporary files"
    has = f"{size} agents"
    return [
        Row(f"{has}: the whole run", "s", whole, note=parts),
        Row(
            f"{has}: turns", "turns/s", figures.turns / figures.working, note="each but the last with a file written"
        ),
        at_most(f"{has}: without an answer", "agents", size - figures.answers, 0),
        at_most(f"{has}: whose files are not shared", "agents", size - figures.shared, 0),
        Row(f"{has}: memory", "MB", figures.memory, note="the most that was resident; the model is another process"),
        Row(f"{has}: threads", "threads", figures.threads, note="the most at once"),
        Row(f"{has}: open files", "files", figures.descriptors, note="the most at once"),
        at_most(f"{has}: left over", "things", figures.threads_left + figures.descriptors_left + left, 0, note=told),
    ]


def _in_a_process(folder: str, size: int, access: Mapping[str, str], temporary: str) -> Figures:
    command = module_command(__name__, folder, str(size), temporary)
    try:
        done = subprocess.run(
            command,
            input=json.dumps(dict(access)),
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchFault(f"{size} agents were not done in {_MOST_SECONDS} seconds.") from None
    if done.returncode:
        raise BenchFault(f"A run of {size} agents failed: {done.stderr[-_SHOWN_CHARS:]}")
    return Figures(**json.loads(done.stdout))


class _Looking(threading.Thread):
    """Looks now and then how many threads and descriptors there are, but for what looking takes."""

    def __init__(self) -> None:
        super().__init__(name="bench", daemon=True)
        self._is_over = threading.Event()
        self.threads = self.descriptors = 0

    def run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            self.threads = max(self.threads, threading.active_count() - 1)
            self.descriptors = max(self.descriptors, _descriptors())

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


def measured(team: Team) -> Figures:
    """One run in this process."""
    heard, looking = Heard(), _Looking()
    threads, descriptors = threading.active_count(), _descriptors()
    began, processor = time.perf_counter(), time.process_time()
    looking.start()
    try:
        team.run(heard)
    finally:
        looking.stop()
    over = time.perf_counter()
    last = max(heard.answered.values())
    started = next(each for each in heard.events if isinstance(each, RunStarted))
    answers = [each for each in heard.events if isinstance(each, Answered) and each.snapshot]
    shared = os.path.join(team.root, "shared")
    return Figures(
        opening=heard.began - began,
        working=last - heard.began,
        ending=over - last,
        processor=time.process_time() - processor,
        turns=sum(heard.turns.values()),
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KB_IN_MB,
        threads=looking.threads,
        descriptors=looking.descriptors,
        threads_left=threading.active_count() - threads,
        descriptors_left=_descriptors() - descriptors,
        answers=len(answers),
        shared=sum(os.path.exists(os.path.join(shared, agent.id, "part0.txt")) for agent in started.agents),
    )


def main(arguments: list[str]) -> None:
    folder, size, temporary = arguments
    access = cast("dict[str, str]", json.load(sys.stdin))
    settings = replace(Settings.from_environment(), temp_dir=temporary)
    sys.stdout.write(json.dumps(asdict(measured(Team.of(folder, int(size), settings, access)))))


if __name__ == "__main__":
    main(sys.argv[1:])
