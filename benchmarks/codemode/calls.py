"""Tool calls from sandboxed code, beside the same calls by the SDK's own client and by FastMCP's code mode.

Ours go the whole way: out of the sandbox, through broker, authorisation, policy and audit log, to the server and
back. The SDK's client has nothing in between.
"""

from __future__ import annotations

import contextlib
import os

from benchmarks.benchmark import Bench
from benchmarks.codemode.fixture import TOOL, Place, Served, server_name
from benchmarks.codemode.peers import Peer, direct, fastmcp_code_mode
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most_times, beside, skipped
from benchmarks.rounds import Measured, interleaved

PARALLEL = 100
_CALL_FACTOR = 0.7
_ATTACHED_FACTOR = 1.3
_PARALLEL_FACTOR = 1.2
_FIRST_FACTOR = 1.2
_MOST_SLOW_CALLS = 40  # FastMCP's take tens of milliseconds each
_UNIT = "ms"
_IMPORT = f"""
import asyncio, statistics, time
from servers.{{server}} import {TOOL}

async def one(number):
    result = await {TOOL}(a=number, b=1)
    assert result == {{{{"sum": number + 1}}}}, result
"""
_CALLS = (
    _IMPORT
    + """
await one(0)
taken = []
for number in range({count}):
    started = time.perf_counter()
    await one(number)
    taken.append(time.perf_counter() - started)
print(statistics.median(taken) * 1e3)
"""
)
_PARALLEL = (
    _IMPORT
    + """
await one(0)
started = time.perf_counter()
await asyncio.gather(*(one(number) for number in range({count})))
print((time.perf_counter() - started) * 1e3)
"""
)
_FIRST = (
    _IMPORT
    + """
started = time.perf_counter()
await one({count})
print((time.perf_counter() - started) * 1e3)
"""
)


def measure_calls(bench: Bench) -> list[Row]:
    count, many = bench.sizes.calls, bench.sizes.servers
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(direct())
        served = {number: stack.enter_context(_served(bench, number)) for number in (1, many)}
        bench.say(f"calling tools with 1 and {many} servers attached")
        contenders: dict[str, Measured] = {
            "alone": _run(served[1], _CALLS, count),
            "among many": _run(served[many], _CALLS, count),
            "direct": lambda: peer.ask("calls", count),
            "parallel": _run(served[1], _PARALLEL, PARALLEL),
            "direct, parallel": lambda: peer.ask("parallel", PARALLEL),
        }
        figures = interleaved(contenders, bench.sizes.rounds)
        others = _beside_fastmcp(bench, served[1])
    alone, among = figures["alone"], figures["among many"]
    note = "await in one run in the sandbox, with policy and audit line; the peer is the SDK's client on the server"
    parallel = figures["parallel"], figures["direct, parallel"]
    return [
        at_most_times("tool call from the sandbox", _UNIT, alone, figures["direct"], _CALL_FACTOR, note=note),
        at_most_times(
            f"the same, {many} servers attached",
            _UNIT,
            among,
            alone,
            _ATTACHED_FACTOR,
            note="the peer is one attached",
        ),
        at_most_times(
            f"{PARALLEL} calls in parallel", _UNIT, *parallel, _PARALLEL_FACTOR, note="all of them together"
        ),
        *others,
    ]


def measure_first_call(bench: Bench) -> list[Row]:
    """Each round calls another server, which has not been called before."""
    bench.say("calling servers for the first time")
    servers = iter(range(bench.sizes.starts + 2))
    with direct() as peer, _served(bench, bench.sizes.starts + 2) as served:
        served.figure(_FIRST.format(server=server_name(next(servers)), count=0))
        contenders: dict[str, Measured] = {
            "ours": lambda: served.figure(_FIRST.format(server=server_name(next(servers)), count=0)),
            "peer": lambda: peer.ask("start", 0),
        }
        figures = interleaved(contenders, bench.sizes.starts)
    note = "the peer is its own start: initialize, tools/list and the call by the SDK's client"
    ours, theirs = figures["ours"], figures["peer"]
    return [at_most_times("first call to a server", _UNIT, ours, theirs, _FIRST_FACTOR, note=note)]


def _served(bench: Bench, servers: int) -> Served:
    bench.say(f"attaching {servers} servers")
    place = Place.with_servers(bench.folder(f"{servers} servers"), servers)
    place.sync()
    return Served(place)


def _run(served: Served, code: str, count: int) -> Measured:
    return lambda: served.figure(code.format(server=server_name(0), count=count))


def _beside_fastmcp(bench: Bench, served: Served) -> list[Row]:
    name = "the same, beside FastMCP's code mode"
    count = min(bench.sizes.calls, _MOST_SLOW_CALLS)
    try:
        bench.say("calling tools in FastMCP's code mode (it is installed once)")
        with fastmcp_code_mode(os.path.join(bench.settings.home, ".cache", "toolyard", "bench")) as peer:
            figures = interleaved(_with_fastmcp(served, peer, count), bench.sizes.rounds)
    except BenchFault as fault:
        return [skipped(name, _UNIT, str(fault))]
    note = f"one server each, {count} calls in one run; FastMCP lists every server again for each call"
    return [beside(name, _UNIT, figures["ours"], figures["peer"], note=note)]


def _with_fastmcp(served: Served, peer: Peer, count: int) -> dict[str, Measured]:
    return {"ours": _run(served, _CALLS, count), "peer": lambda: peer.ask("calls", count)}
