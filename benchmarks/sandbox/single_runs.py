"""One run in the sandbox, warm and cold, beside the same in a plain process without any walls."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most, at_most_times
from benchmarks.rounds import interleaved, milliseconds
from benchmarks.sandbox.fixture import COMMAND, Subject, chosen, median_milliseconds

PYTHON_MS = 3.0
SESSION_MS = 1.0
COMMAND_MS = 4.0
_COLD_FACTOR = 2.0
_THINK_SECONDS = 0.02
_CALLS_PART = 8  # of the calls that a measure over stdio makes in a round
_UNIT = "ms"


def measure_warm(bench: Bench) -> list[Row]:
    bench.say("running 1+1 and true in a warm sandbox")
    count = runs_in_a_round(bench)
    with Subject(bench.folder("warm")) as subject:
        subject.settle()
        work: dict[str, Callable[[], object]] = {
            "python": subject.python,
            "session": subject.session,
            "command": subject.command,
            "plain python": _plain((sys.executable, "-c", "print(1+1)")),
            "plain bash": _plain(("bash", "-c", COMMAND)),
        }
        contenders = {name: median_milliseconds(run, count) for name, run in work.items()}
        for name in ("python", "session", "command"):
            contenders[f"{name}, thinking"] = median_milliseconds(work[name], count, think=_THINK_SECONDS)
        figures = interleaved(contenders, bench.sizes.rounds)
        tier = subject.choice.tier
    thinking = f"{_THINK_SECONDS * 1e3:.0f} ms between requests"
    rows: list[Row] = []
    for name, title, limit, peer, note in (
        ("python", "warm 1+1", PYTHON_MS, "plain python", f"in {tier}; the peer is python -c 'print(1+1)'"),
        ("session", "1+1 in a kept session", SESSION_MS, "plain python", "the peer is python -c 'print(1+1)'"),
        ("command", "warm bash command (true)", COMMAND_MS, "plain bash", "the peer is bash -c true"),
    ):
        rows.append(at_most(f"{title}, back to back", _UNIT, figures[name], limit, peer=figures[peer], note=note))
        rows.append(at_most(f"{title}, {thinking}", _UNIT, figures[f"{name}, thinking"], limit, peer=figures[peer]))
    return rows


def measure_cold(bench: Bench) -> list[Row]:
    bench.say("starting sandboxes")
    workspace, choice = bench.folder("cold"), chosen()

    def cold() -> float:
        started = time.perf_counter()
        with Subject(workspace, choice) as subject:
            subject.python()
            return (time.perf_counter() - started) * 1e3  # closing it is not part of its start

    contenders = {"ours": cold, "peer": milliseconds(_plain((sys.executable, "-c", "pass")))}
    figures = interleaved(contenders, bench.sizes.starts)
    note = "a new sandbox and 1+1 in it; the peer is python -c pass, the same interpreter"
    return [at_most_times("cold sandboxed Python", _UNIT, figures["ours"], figures["peer"], _COLD_FACTOR, note=note)]


def runs_in_a_round(bench: Bench) -> int:
    return max(1, bench.sizes.calls // _CALLS_PART)


def _plain(command: Sequence[str]) -> Callable[[], object]:
    def run() -> object:
        return subprocess.run(list(command), stdin=subprocess.DEVNULL, capture_output=True, check=True)

    return run
