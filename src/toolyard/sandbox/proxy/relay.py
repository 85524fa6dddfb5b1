"""Copies bytes between a client of the proxy and a server, and answers refused clients.

Nothing is buffered: a chunk is read after the previous one was written. The sockets belong to the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Sequence

from toolyard.core.limits import KIB, MIB
from toolyard.sandbox.proxy.allow_list import Address
from toolyard.sandbox.proxy.request import ProxyRequest

_CHUNK_BYTES = 64 * KIB
_ATTEMPT_SECONDS = 6.0
_LINGER_SECONDS = 2.0
_LINGER_BYTES = MIB


async def connect(addresses: Sequence[Address], port: int) -> socket.socket:
    """Connects to the first address that answers. Raises the last address's OSError."""
    loop = asyncio.get_running_loop()
    failure = OSError("it has no address")
    for address in addresses:
        family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.settimeout(0)
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                await loop.sock_connect(server, (str(address), port))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            server.close()
            failure = error
        except BaseException:
            server.close()
            raise
        else:
            return server
    raise failure


async def relay(
    request: ProxyRequest, rest: bytes, client: socket.socket, server: socket.socket, *, idle_seconds: float
) -> None:
    """Serves one request to its end. `rest` followed the head. Raises OSError, also for an idle connection."""
    async with asyncio.timeout(idle_seconds) as clock:
        pump = _Pump(clock, idle_seconds)
        if request.head is None:
            await pump.send(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
            await pump.send(server, rest)
            await _tunnel(pump, client, server)
            return
        await pump.send(server, request.head + rest[: request.length])
        # One request per connection: bytes after the body are never read, and the connection ends with the answer.
        body = asyncio.create_task(pump.copy_bytes(client, server, request.length - len(rest)))
        try:
            await pump.copy_all(server, client)
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)
    await _linger(client)


async def refuse(client: socket.socket, status: int, message: str) -> None:
    """Answers with `message`. Its first line is the reason phrase too: most clients show only that for a tunnel."""
    reason = message.partition("\n")[0].removesuffix(".")
    body = f"{message}\n".encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await asyncio.get_running_loop().sock_sendall(client, head.encode("ascii", "replace") + body)
        client.shutdown(socket.SHUT_WR)
        await _linger(client)


async def _linger(client: socket.socket) -> None:
    """Waits until the client has read its answer: closing while it still sends would lose the answer."""
    loop = asyncio.get_running_loop()
    left = _LINGER_BYTES
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await loop.sock_recv(client, _CHUNK_BYTES)):
                left -= len(chunk)


async def _tunnel(pump: _Pump, client: socket.socket, server: socket.socket) -> None:
    """Copies both directions of a tunnel: each ends separately, an error ends both."""
    tasks = [asyncio.create_task(pump.copy_all(client, server)), asyncio.create_task(pump.copy_all(server, client))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Pump:
    """Copies bytes, and restarts the idle timeout with every chunk."""

    def __init__(self, clock: asyncio.Timeout, idle_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._idle_seconds = idle_seconds

    async def copy_all(self, source: socket.socket, sink: socket.socket) -> None:
        """Copies until the source ends, then shuts down writing to the sink."""
        while chunk := await self._loop.sock_recv(source, _CHUNK_BYTES):
            await self.send(sink, chunk)
        _shut_down_writing(sink)

    async def copy_bytes(self, source: socket.socket, sink: socket.socket, size: int) -> None:
        """Copies exactly the next `size` bytes."""
        while size > 0:
            chunk = await self._loop.sock_recv(source, min(size, _CHUNK_BYTES))
            if not chunk:
                _shut_down_writing(sink)
                return
            size -= len(chunk)
            await self.send(sink, chunk)

    async def send(self, sink: socket.socket, chunk: bytes) -> None:
        await self._loop.sock_sendall(sink, chunk)
        self._clock.reschedule(self._loop.time() + self._idle_seconds)
        await asyncio.sleep(0)  # ready sockets never yield to the loop: one fast pair must not starve the others


def _shut_down_writing(sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # gone already
        sink.shutdown(socket.SHUT_WR)
