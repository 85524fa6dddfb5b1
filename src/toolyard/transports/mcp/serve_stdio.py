"""Serves one Yard over stdio until the client disconnects, and loads the SDK only if needed.

SIGTERM and SIGINT end it gracefully: no new messages are taken, running calls are cancelled and recorded. Clients
send both signals, a tenth of a second apart. With `exits_after` the second one is ignored, so that the cleanup that
follows (the last snapshot, sharing) is not interrupted.
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
from toolyard.transports.mcp.sdk_loader import SdkLoader
from toolyard.transports.mcp.stdio import LineReader, LineWriter, claim_stdio

if TYPE_CHECKING:
    from toolyard.transports.mcp.publish_watch import ChangePollers
    from toolyard.transports.mcp.sdk_session import SdkSession

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SURFACE = "mcp-stdio"


def serve_stdio(yard: Yard, *, exits_after: bool = False) -> None:
    """Serves a Yard on stdin and stdout."""
    asyncio.run(_serve_stdio(yard, exits_after=exits_after))


async def _serve_stdio(yard: Yard, *, exits_after: bool) -> None:
    with claim_stdio() as (wire_in, wire_out):
        await serve_lines(yard, wire_in, wire_out, exits_after=exits_after)


async def serve_lines(yard: Yard, wire_in: int, wire_out: int, *, exits_after: bool = False) -> None:
    """Serves the client on two descriptors."""
    writer = LineWriter(wire_out)
    fast_path = FastPath(writer)
    sdk = SdkLoader()
    handshake = HandshakeServer(yard, _SURFACE, Handlers(writer, fast_path, sdk.ask, sdk.start_loading))
    reader = LineReader(wire_in, writer, (fast_path, handshake))
    pollers = _start_pollers(yard, handshake)
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
                await session(yard, _SURFACE, fast_path, sdk.set_approval_callback, pollers).run(
                    reader, writer, handshake
                )
    finally:
        if pollers is not None:
            await pollers.close()
        await fast_path.close()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            if exits_after:
                signal.signal(number, signal.SIG_IGN)


def ignore_signals() -> None:
    """Ignores signals during a shutdown of limited duration."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _start_pollers(yard: Yard, handshake: HandshakeServer) -> ChangePollers | None:
    """Starts the pollers that notify the client of this connection."""
    if yard.sharing is None and not yard.served.can_change:
        return None
    from toolyard.transports.mcp.publish_watch import ChangePollers

    pollers = ChangePollers.of(yard)
    if pollers is not None:
        if pollers.published is not None:
            pollers.published.add_listener(lambda _: handshake.notify_published())
        if pollers.tools is not None:
            pollers.tools.add_listener(lambda _: handshake.notify_tools_changed())
        pollers.start()
    return pollers


async def _session_when_needed(reader: LineReader, sdk: SdkLoader) -> type[SdkSession] | None:
    """Serves without the SDK until it is needed and loaded. Returns None if the client has disconnected."""
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
    """Answers each request that needs the SDK with the error. Other requests are still served."""
    while await reader.wait_for_unhandled():
        await reader.reply_error(reader.take_line(), fault)
