"""Serving one Yard over stdio until the client leaves: without the SDK while that will do, with it from then on.

SIGTERM and SIGINT end it gracefully: no new messages are taken, calls under way are cancelled and recorded. Clients
send one after the other, a tenth of a second apart. A process that `exits_after` afterwards ignores the second, so that
what is given back next (the last snapshot, what is shared) is given back whole.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from toolyard.app.yard import Yard
from toolyard.core.errors import SystemFault
from toolyard.transports.mcp.fast_path import FastPath
from toolyard.transports.mcp.handshake import Handlers, HandshakeServer
from toolyard.transports.mcp.line_writer import LineWriter
from toolyard.transports.mcp.sdk_loader import SdkLoader
from toolyard.transports.mcp.stdio import LineReader, claim_stdio

if TYPE_CHECKING:
    from toolyard.transports.mcp.publish_watch import ChangePollers
    from toolyard.transports.mcp.sdk_session import SdkSession

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SURFACE = "mcp-stdio"


def serve_stdio(yard: Yard, *, exits_after: bool = False) -> None:
    asyncio.run(_serve_stdio(yard, exits_after=exits_after))


async def _serve_stdio(yard: Yard, *, exits_after: bool) -> None:
    with claim_stdio() as (wire_in, wire_out):
        await serve_lines(yard, wire_in, wire_out, exits_after=exits_after)


async def serve_lines(yard: Yard, wire_in: int, wire_out: int, *, exits_after: bool = False) -> None:
    """Serve the client at the other end of two descriptors."""
    writer = LineWriter(wire_out)
    lane = FastPath(writer)
    sdk = SdkLoader()
    front = HandshakeServer(yard, _SURFACE, Handlers(writer, lane, sdk.ask, sdk.start_loading))
    reader = LineReader(wire_in, writer, front)
    watches = _start_pollers(yard, front)
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, reader.stop)
    try:
        try:
            session = await _session_when_needed(reader, sdk)
        except SystemFault as fault:
            sys.stderr.write(f"toolyard: {fault}\n")
            await _refuse_all(reader, fault)
        else:
            if session is not None:
                await session(yard, _SURFACE, lane, sdk.set_approval_callback, watches).run(reader, writer, front)
    finally:
        if watches is not None:
            await watches.close()
        await lane.close()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            if exits_after:
                signal.signal(number, signal.SIG_IGN)


def ignore_signals() -> None:
    """For a process that has begun to leave, in bounded time."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _start_pollers(yard: Yard, handshake: HandshakeServer) -> ChangePollers | None:
    """What the client of this connection is told of."""
    if yard.sharing is None and not yard.served.can_change:
        return None
    from toolyard.transports.mcp.publish_watch import ChangePollers

    watches = ChangePollers.of(yard)
    if watches is not None:
        if watches.published is not None:
            watches.published.add_listener(lambda _: handshake.notify_published())
        if watches.tools is not None:
            watches.tools.add_listener(lambda _: handshake.notify_tools_changed())
        watches.start()
    return watches


async def _session_when_needed(reader: LineReader, sdk: SdkLoader) -> type[SdkSession] | None:
    """Let the Front answer until something needs the SDK, and on while it is loaded. None: the client has left."""
    lines = asyncio.ensure_future(reader.wait_for_unhandled())
    loaded = asyncio.ensure_future(sdk.session())
    stopped = asyncio.ensure_future(reader.stopped.wait())
    tasks = (lines, loaded, stopped)
    try:
        while not loaded.done():
            await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            if stopped.done() or (lines.done() and not lines.result()):
                return None
            if lines.done():
                sdk.start_loading()
        return loaded.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _refuse_all(reader: LineReader, fault: SystemFault) -> None:
    """Tell each request that needs the SDK why it is not there. What needs none is still answered."""
    while await reader.wait_for_unhandled():
        await reader.reply_error(reader.take_line(), fault)
