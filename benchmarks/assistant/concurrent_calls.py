"""Four calls at once to a model that takes a second, and pings meanwhile: no call waits for another.

Once warm, and once right after the start and the first list of tools, where everything that a call needs is still to
be imported. Beside the pings are those of a server that has nothing else to do: what the machine makes of a ping.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.assistant.fixture import Asking, Model, Place
from benchmarks.benchmark import Bench
from benchmarks.files.startup import MINIMAL
from benchmarks.report import Row, at_most

AT_ONCE = 4
MODEL_SECONDS = 1.0
MOST_SECONDS = 1.5
MOST_PING_MS = 50.0


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds until all were answered, and of the pings meanwhile: the median and the longest, in milliseconds."""

    wall: float
    ping: float
    longest: float


def measure_waiting(bench: Bench) -> list[Row]:
    bench.say(f"{AT_ONCE} calls at once, with pings")
    place = Place.of(bench, "waiting")
    rounds = bench.sizes.rounds
    warm, fresh, idle = list[Round](), list[Round](), list[Round]()
    with Model(delay=MODEL_SECONDS) as model, _nothing_to_do(place, model) as other, place.ask(model) as asking:
        asking.ask("chat", prompt="Are you there?")
        other.ping_for(MODEL_SECONDS)
        for _ in range(rounds):
            warm.append(_round(asking))
            idle.append(_of_pings(MODEL_SECONDS, other.ping_for(MODEL_SECONDS).pings))
        for _ in range(rounds):
            with place.ask(model) as started:
                started.request("tools/list")
                fresh.append(_round(started))
    return rows_of(warm, fresh, idle)


def rows_of(warm: Sequence[Round], fresh: Sequence[Round], idle: Sequence[Round]) -> list[Row]:
    many = f"{AT_ONCE} calls at once"
    walls = [one.wall for one in warm]
    return [
        at_most(f"{many}, warm", "s", statistics.median(walls), MOST_SECONDS, note=f"the slowest {max(walls):.2f} s"),
        _pings(f"longest ping meanwhile, of {many}, warm", warm, idle),
        Row(f"{many}, right after the start", "s", _median(fresh, lambda one: one.wall)),
        _pings(f"longest ping meanwhile, of {many}, right after the start", fresh, idle),
    ]


def _pings(name: str, rounds: Sequence[Round], idle: Sequence[Round]) -> Row:
    longest = _median(rounds, lambda one: one.longest)
    note = (
        f"of a round; the median ping {_median(rounds, lambda one: one.ping):.1f} ms, the longest of all rounds"
        f" {max(one.longest for one in rounds):.1f} ms; the peer has nothing else to do"
    )
    return at_most(name, "ms", longest, MOST_PING_MS, peer=_median(idle, lambda one: one.longest), note=note)


def _median(rounds: Sequence[Round], figure: Callable[[Round], float]) -> float:
    return statistics.median(map(figure, rounds))


def _round(asking: Asking) -> Round:
    """From the first line that is sent to the last answer."""
    began = time.monotonic()
    calls = [asking.begin("chat", prompt=f"What of question {number}?") for number in range(AT_ONCE)]
    told = asking.ping_until(calls)
    answers = [told.answers[call] for call in calls]
    for answer in answers:
        _ = answer.fields  # a refusal is quick and must never count
    return _of_pings(max(answer.at for answer in answers) - began, told.pings)


def _of_pings(wall: float, pings: Sequence[float]) -> Round:
    return Round(wall, statistics.median(pings), max(pings))


def _nothing_to_do(place: Place, model: Model) -> Asking:
    return Asking((sys.executable, "-c", MINIMAL), place.variables(model))
