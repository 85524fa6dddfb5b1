"""Finding one tool among thousands and reading its file: what that costs an agent in tokens and in time."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from toolyard.app.yard import Yard
from toolyard.bench.bench import Bench
from toolyard.bench.codemode_place import Place
from toolyard.bench.report import Row, at_most, skipped
from toolyard.bench.wire import BenchFault
from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault
from toolyard.core.tokens import count_tokens
from toolyard.testing.toolsearch import questions
from toolyard.testing.universe import universe

_MOST_TOKENS = 500
_MOST_MS = 50.0
_NAME = "finding and reading one tool"
_QUESTIONS = "own"
_SURFACE = "bench"


def measure_finding(bench: Bench) -> list[Row]:
    try:
        listings = universe()[: bench.sizes.universe]
        asked = [question.text for question in questions(_QUESTIONS) if question.kind == "step"][: bench.sizes.loops]
    except SystemFault as fault:
        return [skipped(_NAME, "tokens", str(fault))]
    tools = sum(len(listing.tools) for listing in listings)
    bench.say(f"finding tools among {tools:,}")
    place = Place.with_listings(bench.folder("finding"), listings, bench.settings)
    with place.open(bench.settings) as yard:
        costs = asyncio.run(_costs(yard, asked))
    times, found, read = ([cost[part] for cost in costs] for part in range(3))
    both = [search + file for search, file in zip(found, read, strict=True)]
    note = (
        f"median of {len(costs)} questions over {tools:,} tools: search_tools {statistics.median(found):,.0f} tokens,"
        f" Read of the first one's file {statistics.median(read):,.0f}; nine of ten within"
        f" {statistics.quantiles(both, n=10, method='inclusive')[-1]:,.0f} tokens"
    )
    return [
        at_most(f"{_NAME}, tokens", "tokens", statistics.median(both), _MOST_TOKENS, note=note),
        at_most(
            f"{_NAME}, time", "ms", statistics.median(times), _MOST_MS, note="both calls, with their audit lines"
        ),
    ]


async def _costs(yard: Yard, asked: Sequence[str]) -> list[tuple[float, float, float]]:
    """Of each question: milliseconds, tokens of the search, tokens of the file."""
    await _cost(yard, asked[0])  # opens the index
    return [await _cost(yard, query) for query in asked]


async def _cost(yard: Yard, query: str) -> tuple[float, float, float]:
    started = time.perf_counter()
    found = await yard.dispatch(Call("search_tools", {"query": query}, _SURFACE, agent=yard.agent))
    if not found.structured["tools"]:
        raise BenchFault(f"Nothing was found for {query!r}.")
    path = found.structured["tools"][0]["path"]
    read = await yard.dispatch(Call("Read", {"file_path": path}, _SURFACE, agent=yard.agent))
    taken = (time.perf_counter() - started) * 1e3
    return taken, count_tokens(found.text), count_tokens(read.text)
