"""Serving one Yard: over stdio until the client leaves, or over HTTP until somebody stops us.

SIGTERM and SIGINT end both gracefully: no new messages are taken, calls under way are cancelled and recorded.
"""

from __future__ import annotations

import asyncio
import signal

from toolyard.app.yard import Yard
from toolyard.serve.mcp.lane import Lane
from toolyard.serve.mcp.line_writer import LineWriter
from toolyard.serve.mcp.server import YardServer
from toolyard.serve.mcp.stdio import LineReader, claimed_stdio

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve_stdio(yard: Yard) -> None:
    asyncio.run(_stdio(yard))


async def _stdio(yard: Yard) -> None:
    with claimed_stdio() as (wire_in, wire_out):
        writer = LineWriter(wire_out)
        lane = Lane(writer)
        reader = LineReader(wire_in, writer, lane)
        server = YardServer(yard, "mcp-stdio", lane).build()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, reader.stop)
        try:
            await server.run(reader, writer, server.create_initialization_options())
        finally:
            await lane.close()
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
