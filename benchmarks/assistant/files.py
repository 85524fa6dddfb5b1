"""Fifty files of real source, a million tokens: how long until the model has them, and how long pings take meanwhile.

The files are made of Toolyard's own modules, several in each, again from the first one where they do not suffice.
What does not fit the model's context is sent as an outline, so both is done: files are shown whole, and parsed.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import toolyard
from benchmarks.assistant.concurrent_calls import MOST_PING_MS
from benchmarks.assistant.fixture import Asking, Model, Place
from benchmarks.assistant.threads import texts_of
from benchmarks.benchmark import Bench
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most
from toolyard.core.tokens import count_tokens_in_pieces

FILES = 50
_ROUNDS_EACH = 3
"""So many of the usual rounds are one here: it takes seconds."""
_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "thinkdeep": {"current_analysis": "It is well built, but where will it bend first?"},
    "analyze": {"question": "Where does a call go, from the client to the model?"},
}


@dataclass(frozen=True, slots=True)
class Trip:
    """One request with all the files."""

    seconds: float
    """From the client's line to the whole of it at the model."""
    longest: float
    """Of the pings meanwhile, in milliseconds."""
    ping: float
    """Their median."""
    tokens: int
    """That the model was sent."""
    outlined: int


def measure_files(bench: Bench) -> list[Row]:
    place = Place.of(bench, "files")
    names, tokens = written(place, bench.sizes.source_tokens)
    bench.say(f"{len(names)} files, {tokens:,} tokens")
    trips: dict[str, list[Trip]] = {tool: [] for tool in _TOOLS}
    keep = bench.folder("file requests")
    with Model(keep=keep) as model, place.ask(model) as asking:
        asking.ask("chat", prompt="Are you there?")
        for _ in range(max(bench.sizes.rounds // _ROUNDS_EACH, 1)):
            for tool, arguments in _TOOLS.items():
                trips[tool].append(_trip(asking, model, tool, {**arguments, "files": names}))
    return [row for tool, made in trips.items() for row in rows_of(tool, tokens, made)]


def rows_of(tool: str, tokens: int, trips: Sequence[Trip]) -> list[Row]:
    """`tokens` is what the files have, without numbers of lines."""
    files = f"{tool} of {FILES} files, {tokens / 1e6:.2g}M tokens"
    last = trips[-1]
    slowest = max(trip.seconds for trip in trips)
    sent = f"{last.tokens:,} tokens sent, {last.outlined} files as outlines; the slowest {slowest:.2f} s"
    pings = (
        f"of a request; the median ping {statistics.median(trip.ping for trip in trips):.1f} ms,"
        f" the longest of all {max(trip.longest for trip in trips):.1f} ms"
    )
    return [
        Row(f"{files}: until the model has it", "s", statistics.median(trip.seconds for trip in trips), note=sent),
        at_most(
            f"{files}: longest ping",
            "ms",
            statistics.median(trip.longest for trip in trips),
            MOST_PING_MS,
            note=pings,
        ),
    ]


def written(place: Place, tokens: int) -> tuple[list[str], int]:
    """The files' names, and the tokens that they have: about as many as were asked for."""
    sources, total = _sources(), 0
    names: list[str] = []
    for number in range(FILES):
        parts: list[str] = []
        while total < tokens * (number + 1) / FILES or not parts:
            parts.append(next(sources))
            total += count_tokens_in_pieces(parts[-1])
        names.append(f"part{number:02}.py")
        place.write(names[-1], "\n".join(parts))
    return names, total


def _sources() -> Iterator[str]:
    root = os.path.dirname(os.path.abspath(toolyard.__file__))
    paths = [
        os.path.join(folder, name)
        for folder, _, names in sorted(os.walk(root))
        for name in sorted(names)
        if name.endswith(".py")
    ]
    while True:
        for path in paths:
            with open(path, encoding="utf-8") as file:
                if text := file.read():
                    yield text


def _trip(asking: Asking, model: Model, tool: str, arguments: Mapping[str, Any]) -> Trip:
    began = time.monotonic()
    call = asking.begin(tool, **arguments)
    told = asking.ping_until([call])
    said = told.answers[call].fields
    sent = model.requests()[-1]
    outlined = sum("outline" in each["reason"] for each in said["skipped"])
    shown = len(said["files_processed"]) + outlined
    if sent.at < began or shown != FILES:
        raise BenchFault(f"{tool} sent {shown} of {FILES} files.")
    tokens = sum(map(count_tokens_in_pieces, texts_of(sent.body)))
    return Trip(sent.at - began, max(told.pings), statistics.median(told.pings), tokens, outlined)
