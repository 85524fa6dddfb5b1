"""What it costs to have servers attached that are never called: time to be ready, processes, memory, context."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from benchmarks.benchmark import Bench
from benchmarks.codemode.fixture import Place, server_name
from benchmarks.lean_client import BenchFault
from benchmarks.processes import descendants, proportional_kb
from benchmarks.report import Row, at_most
from benchmarks.rounds import interleaved
from toolyard.core.tokens import count_tokens
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.testing.mcp_client import StdioClient

_READY_MS = 500.0
_MEMORY_MB = 80.0
_KB_IN_MB = 1024
_TOKENS = {"minimal": 400, "code": 2_000}
_FEW, _MANY = 1, 500
_TOOLS_EACH = 10
_SERVER_MARK = b"mock_mcp_server"


def measure_attached(bench: Bench) -> list[Row]:
    count = bench.sizes.servers
    bench.say(f"attaching {count} servers")
    place = Place.with_servers(bench.folder("attached"), count)
    place.sync()
    memory, processes = list[float](), list[int]()

    def ready() -> float:
        started = time.perf_counter()
        with StdioClient(place.command("mcp", "--tools", "code")) as client:
            client.request("tools/list")
            taken = (time.perf_counter() - started) * 1e3
            found = client.call("search_tools", query="add two numbers")
            if "add" not in str(found.get("result")):
                raise BenchFault(f"search_tools found nothing: {found}")
            pid = client.process.pid
            memory.append(proportional_kb({pid}) / _KB_IN_MB)
            processes.append(sum(_is_server(child) for child in descendants(pid)))
        return taken

    figure = interleaved({"ours": ready}, bench.sizes.starts)["ours"]
    has = f"{count} servers attached"
    told = "the server's own process, after a search; the sandbox is not part of it"
    return [
        at_most(f"ready with {has}", "ms", figure, _READY_MS, note="from the start of the process to tools/list"),
        at_most(f"server processes with {has}", "processes", max(processes), 0),
        at_most(f"memory of the host with {has}", "MB", max(memory), _MEMORY_MB, note=told),
    ]


def measure_context(bench: Bench) -> list[Row]:
    """The same tools for any number of servers: counted for both, and refused where they differ."""
    bench.say(f"counting tokens with {_FEW} and {_MANY} servers attached")
    places = [
        Place.with_listings(bench.folder(f"context {count}"), _listings(count), bench.settings)
        for count in (_FEW, _MANY)
    ]
    rows: list[Row] = []
    for tools, most in _TOKENS.items():
        (listed, instructed), (with_many, _) = (_tokens(place, tools) for place in places)
        if listed != with_many:
            raise BenchFault(f"--tools {tools} costs {listed} tokens, but {with_many} with {_MANY} servers.")
        note = (
            f"tools/list as it crosses the wire, o200k, the same with {_FEW} and {_MANY} servers of {_TOOLS_EACH}"
            f" tools; a client that shows the instructions adds {instructed}"
        )
        rows.append(at_most(f"context of --tools {tools}", "tokens", listed, most, note=note))
    return rows


def _tokens(place: Place, tools: str) -> tuple[int, int]:
    """Of tools/list, and of the instructions."""
    with StdioClient(place.command("mcp", "--tools", tools)) as client:
        listed: object = client.request("tools/list")["result"]["tools"]
        instructions = str(client.initialize_response["result"].get("instructions") or "")
    text = json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
    return count_tokens(text), count_tokens(instructions)


def _listings(count: int) -> Iterator[ServerListing]:
    for server in range(count):
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        tools = tuple(ToolSchema(f"tool_{number}", f"Do thing {number}.", schema) for number in range(_TOOLS_EACH))
        yield ServerListing(server_name(server), tools)


def _is_server(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return _SERVER_MARK in file.read()
    except OSError:
        return False  # it has ended
