"""The bridge through a real server: files that a client hands over, and how soon a client
that cannot be asked gets the error.

The server is a program of a dozen lines, as authors write it, on the SDK's high level; a plain client talks to it
over stdio.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.benchmark import Bench
from benchmarks.lean_client import BenchFault
from benchmarks.report import Row, at_most, beside
from benchmarks.rounds import Measured, interleaved
from toolyard.config.settings import environment
from toolyard.testing.mcp_client import StdioClient

_MOST_FILES = 1_000
_CONTENT = "x" * 4_096
_TOLD_MS = 100.0
_SERVER = '''\
"""A server of one tool on the bridge."""
from mcp.server.mcpserver import Context, MCPServer

from toolyard.bridge import BridgeHost, SecurityPolicy

server = MCPServer("bench", log_level="ERROR")
host = BridgeHost(SecurityPolicy("/home/me/project"))
host.offer(server)


@server.tool()
@host.asks
async def read(path: str, ctx: Context) -> str:
    """A file of the client's."""
    return await host.bridge(ctx).read_file(path)


server.run("stdio")
'''


def measure_served(bench: Bench) -> list[Row]:
    count = min(_MOST_FILES, bench.sizes.tree_files)
    bench.say(f"{count:,} files handed over to a server")
    files = [{"path": f"src/module_{number}.py", "content": _CONTENT} for number in range(count)]
    with _client(bench) as client:
        told = interleaved({"told": _told(client, bench.sizes.calls)}, bench.sizes.rounds)["told"]
        figures = interleaved(
            {
                "batch": _timed(lambda: _push(client, files=files)),
                "single": _timed(lambda: [_push(client, **file) for file in files]),
            },
            bench.sizes.rounds,
        )
        read = interleaved({"read": _reads(client, bench.sizes.calls)}, bench.sizes.rounds)["read"]
    name = f"guide_cache_file of {count:,} files in one call, beside {count:,} calls"
    return [
        at_most(
            "the error for a client without sampling", "ms", told, _TOLD_MS, note="a call of a tool, and its error"
        ),
        beside(name, "ms", figures["batch"], figures["single"], note=f"{len(_CONTENT):,} bytes each, over stdio"),
        Row("a call of a tool that reads one of them", "ms", read, note="from the cache, over stdio"),
    ]


def _client(bench: Bench) -> StdioClient:
    path = os.path.join(bench.folder("served"), "server.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_SERVER)
    env = {"PATH": environment().get("PATH", os.defpath), "HOME": bench.scratch}
    return StdioClient((sys.executable, path), env=env, client_name="bench")


def _push(client: StdioClient, **arguments: Any) -> None:
    result = client.call("guide_cache_file", **arguments).get("result", {})
    if not result.get("structuredContent"):
        raise BenchFault("A file could not be handed over.")


def _told(client: StdioClient, count: int) -> Measured:
    def ask() -> None:
        error = client.call("read", path="src/never.py").get("error", {})
        if error.get("data", {}).get("reason") != "sampling_unsupported":
            raise BenchFault("A client without sampling was not told so.")

    return _median(ask, count)


def _reads(client: StdioClient, count: int) -> Measured:
    def read() -> None:
        if client.call("read", path="src/module_0.py").get("result", {}).get("isError", True):
            raise BenchFault("A file that was handed over could not be read.")

    return _median(read, count)


def _median(work: Callable[[], object], count: int) -> Measured:
    timed = _timed(work)
    return lambda: statistics.median(timed() for _ in range(count))


def _timed(work: Callable[[], object]) -> Measured:
    """In milliseconds."""

    def run() -> float:
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) * 1e3

    return run
