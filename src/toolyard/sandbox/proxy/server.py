"""The network access of a sandbox without a network: an HTTP proxy on a unix socket that enforces an allow-list.

Contract: a `ProxyServer` listens from its construction on, in one thread of its own, at a path in a private folder of
its owner. `close()` ends every connection, joins the thread and removes the socket. A process that dies without it
leaves only the socket file, in its owner's folder.

It supports CONNECT, and plain HTTP with one request per connection. Names are resolved here, and the connection goes
to the very address that was checked. Paths, headers and content are neither stored nor reported.

Clients are hostile: the number of connections, the size and duration of a request's head and the idle time of a
connection are bounded. When all connections are in use, others wait in the kernel, where they cost nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.closeable import Closeable
from toolyard.core.limits import KIB
from toolyard.linux.unix_socket import bind_privately
from toolyard.sandbox.proxy.allow_list import Address, AllowList, host_text, literal_address
from toolyard.sandbox.proxy.dns import DnsResolver, LookupFunction, system_lookup
from toolyard.sandbox.proxy.relay import connect, refuse, relay
from toolyard.sandbox.proxy.request import BadRequest, ProxyRequest, parse_request

OnRequest = Callable[[str, int, bool], None]
"""Called once for each request, before anything is sent: host, port, whether it is allowed. It runs in the proxy's
thread, so it must be quick; if it raises, the request is refused."""

_BACKLOG = 256
_JOIN_SECONDS = 5.0
_RETRY_ACCEPT_SECONDS = 0.2
_END_OF_HEAD = b"\r\n\r\n"
_SETTING = "code_execution.allowed_hosts"


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits for hostile clients."""

    connections: int = 64
    head_bytes: int = 32 * KIB
    head_seconds: float = 15.0
    connect_seconds: float = 20.0
    """For the lookup and all connection attempts together."""
    idle_seconds: float = 120.0


class ProxyServer(Closeable):
    """The proxy. Raises OSError if the socket cannot be created. `close` is thread-safe and idempotent."""

    def __init__(
        self,
        path: str,
        allowed: AllowList,
        on_request: OnRequest,
        *,
        limits: ProxyLimits | None = None,
        lookup: LookupFunction = system_lookup,
    ) -> None:
        self.path = path
        self._allowed = allowed
        self._on_request = on_request
        self._limits = limits or ProxyLimits()
        self._resolver = DnsResolver(lookup)
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._close_lock = threading.Lock()
        self._listener = _listen(path)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="toolyard-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._close_lock:
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_JOIN_SECONDS)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, self._listener:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._resume_accepting()
        await self._stop.wait()
        # Connections are cancelled, and waited for, when the runner ends.
        self._loop.remove_reader(self._listener)

    def _resume_accepting(self) -> None:
        """Accepts connections again, unless the maximum is open."""
        if not self._stop.is_set() and len(self._connections) < self._limits.connections:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accepts one connection per loop iteration, so that a flood of them does not delay the others."""
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return  # the client has already disconnected
        except OSError:  # out of descriptors: they are freed as connections end
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_RETRY_ACCEPT_SECONDS, self._resume_accepting)
            return
        client.settimeout(0)
        task = self._loop.create_task(self._serve_connection(client))
        self._connections[task] = client
        task.add_done_callback(self._on_connection_end)
        if len(self._connections) >= self._limits.connections:
            self._loop.remove_reader(self._listener)

    def _on_connection_end(self, task: asyncio.Task[None]) -> None:
        self._connections.pop(task).close()
        self._resume_accepting()

    async def _serve_connection(self, client: socket.socket) -> None:
        try:
            await self._handle_request(client)
        except BadRequest as error:
            await refuse(client, error.status, str(error))
        except OSError:
            return  # the client disconnected, or was idle for too long

    async def _handle_request(self, client: socket.socket) -> None:
        head, rest = await self._read_head(client)
        request = parse_request(head)
        try:
            addresses = await self._allowed_addresses(request)
            async with asyncio.timeout(self._limits.connect_seconds):
                server = await connect(addresses, request.port)
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise BadRequest(f"{request.host}:{request.port} cannot be reached: {reason}.", status=502) from error
        with server:
            await relay(request, rest, client, server, idle_seconds=self._limits.idle_seconds)

    async def _read_head(self, client: socket.socket) -> tuple[bytes, bytes]:
        """Returns the request's head, and the bytes that followed it."""
        loop = asyncio.get_running_loop()
        data = b""
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                while _END_OF_HEAD not in data:
                    if len(data) > self._limits.head_bytes:
                        raise BadRequest("The head of the request is too large.", status=431)
                    chunk = await loop.sock_recv(client, self._limits.head_bytes)
                    if not chunk:
                        raise ConnectionResetError
                    data += chunk
        except TimeoutError as error:
            raise BadRequest("The head of the request did not come in time.", status=408) from error
        head, end, rest = data.partition(_END_OF_HEAD)
        return head + end, rest

    async def _allowed_addresses(self, request: ProxyRequest) -> list[Address]:
        """Returns the addresses that may be connected to, at least one. Raises BadRequest (403) if there is none."""
        host, port = request.host, request.port
        if not self._allowed.matches(host, port):
            self._report_request(host, port, allowed=False)
            raise self._refusal(f"{host}:{port} is not in {_SETTING}.", f"{host}:{port}")
        address = literal_address(host)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                found = [address] if address else await self._resolver.resolve(host, port)
        except OSError:
            self._report_request(host, port, allowed=True)
            raise
        reached = [each for each in found if self._allowed.may_connect(host, each, port)]
        self._report_request(host, port, allowed=bool(reached))
        if not reached:
            inner = host_text(found[0]) if found else "no address"
            message = f"{host} is in {_SETTING}, but resolves to {inner}, which is not a public address."
            raise self._refusal(message, f"{inner}:{port}")
        return reached

    def _report_request(self, host: str, port: int, *, allowed: bool) -> None:
        try:
            self._on_request(host, port, allowed)
        except Exception as error:  # the owner's callback: if it fails, an unrecorded request must not be sent
            raise BadRequest("The request could not be recorded, so it was not made.", status=503) from error

    def _refusal(self, message: str, entry: str) -> BadRequest:
        allowed = f"Allowed from this sandbox: {self._allowed.describe()} (ports 80 and 443 where none is named)."
        remedy = f"To allow it, the user adds {entry} to {_SETTING} in toolyard.yaml."
        return BadRequest(f"{message}\n{allowed}\n{remedy}", status=403)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bind_privately(listener, path)
        listener.listen(_BACKLOG)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener
