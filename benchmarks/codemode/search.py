"""How well and how fast tools are found: by keywords alone, and with the extra `semantic`.

The quality is that on public benchmarks and on questions of our own, beside the least we accept and what we aim at.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.benchmark import Bench
from benchmarks.report import Row, at_most, skipped
from tests.support.toolsearch import (
    Search,
    by_task,
    documents,
    fill,
    questions,
    recall,
    searching,
    servers_found,
    tools,
)
from toolyard.codemode.search import ToolIndex
from toolyard.core.errors import SystemFault

_QUERY_MS = 20.0
_START_MS = 300.0
_START_TOOLS = 1_000
_TOP = 5


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of quality, in percent."""

    name: str
    of: Callable[[Mapping[str, Search]], float]
    keywords: float
    """The least we accept of keywords alone."""
    semantic: float
    aim: float

    def floor(self, *, semantic: bool) -> float:
        return self.semantic if semantic else self.keywords


def _task(tool_set: str, asked: str, part: int) -> Callable[[Mapping[str, Search]], float]:
    return lambda found: by_task(found[tool_set], questions(asked), 10)[part]


def _servers(name: str, top: int) -> Callable[[Mapping[str, Search]], float]:
    return lambda found: servers_found(found[name], questions(name), top)


def _own(kind: str, top: int) -> Callable[[Mapping[str, Search]], float]:
    return lambda found: recall(found["own"], [one for one in questions("own") if one.kind == kind], top)


MEASURES = (
    Measure(
        "70 servers, an agent's searches: right server", _task("livemcpbench", "livemcpbench_agentq", 1), 94, 94, 97
    ),
    Measure(
        "70 servers, an agent's searches: right tools", _task("livemcpbench", "livemcpbench_agentq", 0), 70, 74, 82
    ),
    Measure("365 servers, an agent's searches: right server", _task("mcp_pool", "mcp_pool_agentq", 1), 88, 91, 95),
    Measure("365 servers, an agent's searches: right tools", _task("mcp_pool", "mcp_pool_agentq", 0), 62, 66, 75),
    Measure("LiveMCPBench, whole task: right server first", _servers("livemcpbench", 1), 50, 66, 75),
    Measure("LiveMCPBench, whole task: right server of 5", _servers("livemcpbench", 5), 81, 86, 92),
    Measure("MCP-Bench, whole task: right server first", _servers("mcpbench", 1), 75, 88, 94),
    Measure("MCP-Bench, whole task: right server of 3", _servers("mcpbench", 3), 91, 98, 100),
    Measure("own searches over 207 servers: right tool of 5", _own("step", 5), 42, 60, 75),
    Measure("own searches over 207 servers: right tool of 10", _own("step", 10), 50, 72, 85),
    Measure("own requests over 207 servers: right tools of 10", _own("request", 10), 58, 66, 80),
)
SETS = ("livemcpbench", "mcp_pool", "mcpbench", "own")


def measure_search(bench: Bench) -> list[Row]:
    """Rows for the index by keywords, and for the one with vectors where the extra is installed."""
    try:
        for name in SETS:
            tools(name)
    except SystemFault as fault:
        return [skipped("tool search", "%", str(fault))]
    return [row for semantic in (False, True) for row in _measured(bench, semantic=semantic)]


def _measured(bench: Bench, *, semantic: bool) -> list[Row]:
    label = "with vectors" if semantic else "by keywords"
    folder = bench.folder("search-semantic" if semantic else "search")
    with contextlib.ExitStack() as stack:
        indexes: dict[str, ToolIndex] = {}
        for name in SETS:
            bench.say(f"indexing {name} {label}")
            path = os.path.join(folder, f"{name}.index")
            with ToolIndex.open_writable(path, semantic=semantic) as index:
                if semantic and index.note:
                    return [skipped(f"tool search {label}", "%", index.note)]
                fill(index, name)
            indexes[name] = stack.enter_context(ToolIndex.open(path, semantic=semantic))
        found = {name: searching(index) for name, index in indexes.items()}
        rows: list[Row] = []
        for measure in MEASURES:
            bench.say(f"searching {label}: {measure.name}")
            rows.append(_row(measure, measure.of(found), label, semantic=semantic))
        bench.say(f"timing searches {label}")
        return [*rows, _query_time(indexes["own"], label), _start_time(bench, folder, label, semantic=semantic)]


def _row(measure: Measure, ours: float, label: str, *, semantic: bool) -> Row:
    """Targets are whole percents, so ours is rounded like them."""
    floor, rounded = measure.floor(semantic=semantic), round(ours)
    note = f"{ours:.1f} % before rounding; aim: {measure.aim:g} %"
    return Row(f"{measure.name}, {label}", "%", rounded, None, None, f"≥ {floor:g} %", rounded >= floor, note)


def _query_time(index: ToolIndex, label: str) -> Row:
    times: list[float] = []
    for question in questions("own"):
        started = time.perf_counter()
        index.search(question.text, _TOP)
        times.append((time.perf_counter() - started) * 1e3)
    count = sum(len(listed) for listed in tools("own").values())
    note = f"median of {len(times)} questions over {count:,} tools; the slowest took {max(times):.1f} ms"
    return at_most(f"one search, {label}", "ms", statistics.median(times), _QUERY_MS, note=note)


def _start_time(bench: Bench, folder: str, label: str, *, semantic: bool) -> Row:
    """A new process: import, open, first answer."""
    path = os.path.join(folder, "start.index")
    with ToolIndex.open_writable(path, semantic=semantic) as index:
        left = _START_TOOLS
        for server, schemas in tools("own").items():
            some = schemas[:left]
            left -= len(some)
            index.replace_server(server, documents(server, some))
            if left <= 0:
                break
    code = (
        "import sys, time; started = time.perf_counter(); from toolyard.codemode.search import ToolIndex; "
        f"ToolIndex.open(sys.argv[1], semantic={semantic}).search('read a file'); "
        "print(time.perf_counter() - started)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True).stdout)
        for _ in range(bench.sizes.starts)
    ]
    note = "a new process: import, open, first answer"
    return at_most(
        f"start with {_START_TOOLS:,} tools, {label}", "ms", statistics.median(runs) * 1e3, _START_MS, note=note
    )
