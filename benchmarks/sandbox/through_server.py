"""The sandbox through the whole stack: a real server over stdio, and what its commands do to its file tools."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from benchmarks.benchmark import Bench
from benchmarks.lean_client import Arguments, BenchFault
from benchmarks.report import Row, at_most
from benchmarks.rounds import interleaved
from benchmarks.sandbox.fixture import COMMAND, SUM, SUM_VALUE, median_milliseconds
from benchmarks.sandbox.single_runs import runs_in_a_round
from toolyard.testing.mcp_client import StdioClient

_UNIT = "ms"
_COMMANDS = 30
_READ_MS = 100.0
_PERCENTILE = 95
_COMMAND_MS = 120_000
_UP_SECONDS = 60.0
_POLL_SECONDS = 0.02
_PAUSE_SECONDS = 0.005  # between reads, so that they meet the commands at different moments
_FEWEST_READS = 20
_FILE = "read.txt"
# Each says that it is up, then goes on until it is ended.
_LOADS = {
    "printing and sleeping": "touch up.{number}; while :; do echo {number}; sleep 0.05; done",
    "in a busy loop": "touch up.{number}; while :; do :; done",
}
_CALLS: Mapping[str, tuple[str, Arguments]] = {
    "execute_python 1+1": ("execute_python", {"code": SUM}),
    "execute_python 1+1 in a kept session": ("execute_python", {"code": SUM, "session": "bench"}),
    "Bash true": ("Bash", {"command": COMMAND}),
}


def measure_calls(bench: Bench) -> list[Row]:
    bench.say("the same over stdio")
    count = runs_in_a_round(bench)
    with StdioClient(_server(bench, bench.folder("served"))) as client:
        contenders = {
            name: median_milliseconds(functools.partial(_call, client, *call), count) for name, call in _CALLS.items()
        }
        figures = interleaved(contenders, bench.sizes.rounds)
    return [Row(f"{name} over stdio", _UNIT, figure, note=_SERVED_NOTE) for name, figure in figures.items()]


def measure_reads(bench: Bench) -> list[Row]:
    return [_reads_beside(bench, load, command) for load, command in _LOADS.items()]


_SERVED_NOTE = "a real server: policy, command analysis and audit line included"


def _server(bench: Bench, workspace: str) -> tuple[str, ...]:
    return (*bench.server(workspace), "--tools", "all")


def _call(client: StdioClient, tool: str, arguments: Arguments) -> None:
    answer = client.call(tool, **arguments)
    result = cast("Mapping[str, Any]", answer.get("result", {}))
    content = cast("Mapping[str, Any]", result.get("structuredContent") or {})
    if content.get("exit_code") != 0 or content.get("value", SUM_VALUE) != SUM_VALUE:
        raise BenchFault(f"{tool} failed: {answer}")


def _reads_beside(bench: Bench, load: str, command: str) -> Row:
    bench.say(f"reading files while {_COMMANDS} commands run, {load}")
    workspace = bench.folder(f"reads {load}")
    path = os.path.join(workspace, _FILE)
    with open(path, "w", encoding="utf-8") as file:
        file.write("a line of text\n" * 100)
    count = max(_FEWEST_READS, bench.sizes.calls)
    with StdioClient(_server(bench, workspace)) as client:

        def read() -> None:
            _read(client, path)

        read()
        alone = _timed(read, count)
        started = [_start(client, command.format(number=number)) for number in range(_COMMANDS)]
        _wait_until_up(workspace)
        loaded = _timed(read, count)
        for request in started:
            client.notify("notifications/cancelled", {"requestId": request})
    p95, p95_alone = _percentile(loaded), _percentile(alone)
    name = f"Read while {_COMMANDS} commands run, {load}, p{_PERCENTILE}"
    note = (
        f"worst {max(loaded):.1f} ms, median {statistics.median(loaded):.1f} ms of {count} reads;"
        f" the peer is p{_PERCENTILE} with nothing running"
    )
    return at_most(name, _UNIT, p95, _READ_MS, peer=p95_alone, note=note)


def _start(client: StdioClient, command: str) -> int:
    return client.send_request(
        "tools/call", {"name": "Bash", "arguments": {"command": command, "timeout": _COMMAND_MS}}
    )


def _timed(work: Callable[[], object], count: int) -> list[float]:
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1e3)
        time.sleep(_PAUSE_SECONDS)
    return taken


def _percentile(figures: list[float]) -> float:
    return statistics.quantiles(figures, n=100, method="inclusive")[_PERCENTILE - 1]


def _read(client: StdioClient, path: str) -> None:
    """One Read. A command that answers meanwhile has ended, and then nothing was measured."""
    request = client.send_request("tools/call", {"name": "Read", "arguments": {"file_path": path}})
    while True:
        message = client.receive()
        if "method" in message:
            continue
        if message.get("id") != request:
            raise BenchFault(f"A command ended while files were read: {message}")
        if "error" in message or message["result"].get("isError"):
            raise BenchFault(f"Read failed: {message}")
        return


def _wait_until_up(workspace: str) -> None:
    until = time.monotonic() + _UP_SECONDS
    waiting = [os.path.join(workspace, f"up.{number}") for number in range(_COMMANDS)]
    while not all(map(os.path.exists, waiting)):
        if time.monotonic() > until:
            raise BenchFault(f"{_COMMANDS} commands were not all running after {_UP_SECONDS:.0f} s.")
        time.sleep(_POLL_SECONDS)
