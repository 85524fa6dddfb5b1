"""Finding one tool among thousands and reading its file: what that costs an agent in tokens and in time.

Measured twice: for tools from all over the captured servers, each asked for in its own words and read itself, and for
real questions, with the file of whatever came first.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.benchmark import Bench
from benchmarks.codemode.fixture import Place
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most, skipped
from tests.support.toolsearch import questions
from tests.support.universe import universe
from toolyard.app.yard import Yard
from toolyard.codemode.file_writer import WrittenServer
from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault
from toolyard.core.tokens import count_tokens
from toolyard.core.upstream import ServerListing

_MOST_TOKENS = 500
_MOST_MS = 50.0
_NAME = "finding and reading one tool"
_QUESTIONS = "own"
_SURFACE = "bench"
_MOST_ASKED = 400
_QUERY_CHARS = 100


@dataclass(frozen=True, slots=True)
class Cost:
    milliseconds: float
    found: int
    """Tokens of the answer of search_tools."""
    read: int
    """Tokens of the file."""


def measure_finding(bench: Bench) -> list[Row]:
    try:
        listings = universe()[: bench.sizes.universe]
        asked = [question.text for question in questions(_QUESTIONS) if question.kind == "step"]
    except SystemFault as fault:
        return [skipped(_NAME, "tokens", str(fault))]
    wanted = list(_wanted(listings))
    step = max(1, len(wanted) // min(_MOST_ASKED, bench.sizes.loops))
    bench.say(f"finding tools among {len(wanted):,}")
    place = Place.with_listings(bench.folder("finding"), listings, bench.settings)
    with place.open(bench.settings) as yard:
        paths = _paths(yard)
        own = asyncio.run(_costs(yard, [(query, paths[key]) for query, key in wanted[::step]]))
        real = asyncio.run(_costs(yard, [(query, "") for query in asked[: bench.sizes.loops]]))
    told = f"median of {len(own)} of {len(wanted):,} tools, each asked for in its own words; {_parts(own)}"
    return [
        at_most(f"{_NAME}, tokens", "tokens", _tokens(own), _MOST_TOKENS, note=told),
        at_most(f"{_NAME}, time", "ms", _time(own), _MOST_MS, note="both calls, with their audit lines"),
        Row(f"{_NAME}, real questions", "tokens", _tokens(real), note=f"{len(real)} questions; {_parts(real)}"),
    ]


def _wanted(listings: Iterable[ServerListing]) -> Iterable[tuple[str, tuple[str, str]]]:
    """What to ask, and the tool it is asked for."""
    for listing in listings:
        for tool in listing.tools:
            words = tool.description.strip().partition("\n")[0][:_QUERY_CHARS]
            yield words or tool.name, (listing.server, tool.name)


def _paths(yard: Yard) -> dict[tuple[str, str], str]:
    """The file of each tool."""
    return {
        (server.name, tool.name): tool.path
        for server in yard.codemode.catalog.servers()
        for tool in WrittenServer.from_json(server.written).tools
    }


async def _costs(yard: Yard, asked: Sequence[tuple[str, str]]) -> list[Cost]:
    await _cost(yard, *asked[0])  # opens the index, loads the tokenizer
    return [await _cost(yard, query, path) for query, path in asked]


async def _cost(yard: Yard, query: str, path: str) -> Cost:
    """Without a path the first tool's file is read."""
    started = time.perf_counter()
    found = await yard.dispatch(Call("search_tools", {"query": query}, _SURFACE, agent=yard.agent))
    if not found.structured["tools"]:
        raise BenchFault(f"Nothing was found for {query!r}.")
    file = path or found.structured["tools"][0]["path"]
    read = await yard.dispatch(Call("Read", {"file_path": file}, _SURFACE, agent=yard.agent))
    taken = (time.perf_counter() - started) * 1e3
    return Cost(taken, count_tokens(found.text), count_tokens(read.text))


def _tokens(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.found + cost.read for cost in costs)


def _time(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.milliseconds for cost in costs)


def _parts(costs: Sequence[Cost]) -> str:
    found = statistics.median(cost.found for cost in costs)
    read = statistics.median(cost.read for cost in costs)
    return f"search_tools {found:,.0f} tokens, Read of the file {read:,.0f}"
