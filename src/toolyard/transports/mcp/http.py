"""Streamable HTTP at `/mcp`, with a bearer token and checks of the Host and Origin headers.

The token is compared in constant time before the body is read. `RequestChecks` compares Host and Origin with the
addresses of this server, which prevents DNS rebinding. The HTTP API (`transports/http`) is part of the same
application, with the same token and checks.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolyard.app.yard import Yard
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.transports.client_profile import DEFAULT_PROFILE, ClientProfile
from toolyard.transports.http.errors import RefusedError
from toolyard.transports.http.routes import ToolRoutes
from toolyard.transports.mcp.http_connections import KEEP_ALIVE_SECONDS, BoundedHttpProtocol
from toolyard.transports.mcp.request_checks import MAX_BODY_BYTES, PATH, RequestChecks
from toolyard.transports.mcp.server import YardServer

Lifespan = Callable[[Starlette], contextlib.AbstractAsyncContextManager[Any]]

_UNAUTHORIZED = 401
_AUTHORIZATION_HINT = "Send the header Authorization: Bearer <token>."
_GRACE_SECONDS = 1  # for running calls; then they are cancelled
_BACKLOG = 128
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SDK_CHECKS_OFF = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK compares only the beginning of a host; `RequestChecks` compares all of it."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - names to recognise, nothing is bound here


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where the server listens."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()
    """Other names of this server, in addition to loopback and `host`."""


class BearerAuthMiddleware:
    """Middleware that rejects requests without the right token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not hmac.compare_digest(bearer_token(scope["headers"]), self._token):
            await reject_unauthorized(scope, receive, send)
            return
        await self._app(scope, receive, send)


def bearer_token(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the bearer token of a request, or b""."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        return b""
    scheme, _, token = values[0].partition(b" ")
    return token.strip(b" ") if scheme.lower() == b"bearer" else b""


async def reject_unauthorized(scope: Scope, receive: Receive, send: Send) -> None:
    """Rejects a request without a valid token: as OAuth does for `/mcp`, with an error object elsewhere."""
    challenge = {"WWW-Authenticate": "Bearer"}
    if scope["path"] == PATH:
        body = json.dumps({"error": "unauthorized", "hint": _AUTHORIZATION_HINT})
        response = Response(body, _UNAUTHORIZED, challenge, "application/json")
    else:
        error = SecurityError("The bearer token is missing or wrong.", hint=_AUTHORIZATION_HINT)
        response = RefusedError(_UNAUTHORIZED, error, challenge).response()
    await response(scope, receive, send)


def http_app(yard: Yard, token: str, address: ListenAddress) -> ASGIApp:
    """Returns the ASGI application, for this server or for embedding."""
    return BearerAuthMiddleware(yard_app(yard, address), token)


def yard_app(yard: Yard, address: ListenAddress, profile: ClientProfile = DEFAULT_PROFILE) -> Starlette:
    """Returns the application for one Yard, without authentication."""
    routes = ToolRoutes(yard, profile)
    app = (
        YardServer(yard, "mcp-http", profile=profile)
        .build()
        .streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY_BYTES,
            transport_security=_SDK_CHECKS_OFF,
            custom_starlette_routes=routes.routes(),
        )
    )
    app.add_middleware(RequestChecks, names=_host_names(address))
    app.router.lifespan_context = _combined_lifespan(app.router.lifespan_context, routes)
    return app


def _combined_lifespan(sessions: Lifespan, routes: ToolRoutes) -> Lifespan:
    """Combines the lifespans of the SDK's sessions and of our routes."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with sessions(app), routes.lifespan():
            yield

    return lifespan


def _host_names(address: ListenAddress) -> tuple[str, ...]:
    names = (*_LOOPBACK, *address.allowed_hosts)
    if address.host in _WILDCARDS:
        return names
    return (*names, f"[{address.host}]" if ":" in address.host else address.host)


def listen(address: ListenAddress) -> socket.socket:
    """Returns a listening socket; port 0 selects a free port."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With the protocol set to TCP: otherwise asyncio does not disable Nagle's algorithm (40 ms a response).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        # Listens before the event loop runs: a client may connect as soon as it knows the address.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SystemFault(
            f"Cannot listen on {address.host}:{address.port}: {error.strerror}.",
            hint="Choose another port, or 0 for a free one.",
        ) from error
    return listener


def serve_http(yard: Yard, token: str, address: ListenAddress, listener: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT."""
    app: Any = http_app(yard, token, address)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=BoundedHttpProtocol,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Returns on SIGTERM and SIGINT: uvicorn would re-raise the signal and skip our shutdown."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        former = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
