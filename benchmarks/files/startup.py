"""From the start of the process to the answer of the first tools/list, beside the least a server can be."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from benchmarks.benchmark import Bench
from benchmarks.lean_client import Wire
from benchmarks.report import Row, at_most_times
from benchmarks.rounds import Measured, interleaved

_FACTOR = 1.3
MINIMAL = '''\
"""The least that a server on this SDK can be: one tool, over the SDK's own stdio transport."""
import asyncio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

TOOL = Tool(name="echo", description="Say it back.", input_schema={"type": "object"})


async def list_tools(context, params):
    return ListToolsResult(tools=[TOOL])


async def call_tool(context, params):
    return CallToolResult(content=[TextContent(text=str(params.arguments))])


async def main():
    server = Server("minimal", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


asyncio.run(main())
'''


def measure(bench: Bench) -> list[Row]:
    bench.say("starting servers")
    workspace = bench.folder("start")
    script = os.path.join(bench.scratch, "minimal_server.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(MINIMAL)
    contenders = {
        "ours": _first_listing(bench.server(workspace)),
        "peer": _first_listing((sys.executable, script)),
    }
    figures = interleaved(contenders, bench.sizes.starts)
    note = "beside a server of one tool on the same SDK"
    return [at_most_times("start to first tools/list", "ms", figures["ours"], figures["peer"], _FACTOR, note=note)]


def _first_listing(command: Sequence[str]) -> Measured:
    def run() -> float:
        started = time.perf_counter()
        with Wire(command) as wire:
            wire.request("tools/list", {})
            return (time.perf_counter() - started) * 1e3  # ending the server is not part of its start

    return run
