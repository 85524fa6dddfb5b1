"""From what servers list to files: the time to compile a tool, and a sync that finds nothing changed."""

from __future__ import annotations

import time

from benchmarks.benchmark import Bench
from benchmarks.codemode.fixture import Place
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most, skipped
from benchmarks.rounds import interleaved, milliseconds
from tests.support.universe import universe
from toolyard.codemode.files import compile_server
from toolyard.codemode.sync_report import SyncRequest, run_sync
from toolyard.core.errors import SystemFault

_TOOL_MS = 0.5
_SYNC_MS = 150.0
_UNIT = "ms"


def measure_compile(bench: Bench) -> list[Row]:
    name = "compile one tool"
    try:
        listings = universe()[: bench.sizes.universe]
    except SystemFault as fault:
        return [skipped(name, _UNIT, str(fault))]
    bench.say(f"compiling the tools of {len(listings)} captured servers")
    tools = sum(len(listing.tools) for listing in listings)

    def compile_all() -> float:
        started = time.thread_time()  # it waits for nothing, so this is what a quiet machine takes
        for listing in listings:
            compile_server(listing)
        return (time.thread_time() - started) * 1e3 / tools

    figure = interleaved({"ours": compile_all}, bench.sizes.rounds)["ours"]
    note = f"mean over the {tools:,} tools of {len(listings)} real servers, index files included, processor time"
    return [at_most(name, _UNIT, figure, _TOOL_MS, note=note)]


def measure_sync(bench: Bench) -> list[Row]:
    count = bench.sizes.servers
    bench.say(f"asking {count} servers for their tools, then again")
    place = Place.with_servers(bench.folder("sync"), count)
    first = place.sync()
    written = 0

    def again() -> float:
        nonlocal written
        with place.open(bench.settings) as yard:
            started = time.perf_counter()
            report = run_sync(yard.codemode, SyncRequest())
            taken = (time.perf_counter() - started) * 1e3
        if report.asked or report.failed:
            raise BenchFault(f"A sync of unchanged servers asked {len(report.asked)} and failed: {report.failed}")
        written += report.written
        return taken

    figures = interleaved({"ours": again, "command": milliseconds(place.sync)}, bench.sizes.rounds)
    note = (
        f"{first['tools']:,} tools; asking them all and writing their files took {first['seconds']:.1f} s;"
        f" the whole command takes {figures['command']:,.0f} ms"
    )
    return [
        at_most(f"sync of {count} unchanged servers", _UNIT, figures["ours"], _SYNC_MS, note=note),
        at_most("files it writes", "files", written, 0),
    ]
