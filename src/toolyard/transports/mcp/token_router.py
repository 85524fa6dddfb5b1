"""Serves many workspaces at one address: the token of a request selects the workspace.

`TokenRouter` is an ASGI application on one event loop. It owns what serves each Yard from `register` to `unregister`,
after which the token is invalid; it does not own the Yards. Tokens are stored as digests, so a lookup takes the same
time for a nearly correct token.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from toolyard.app.yard import Yard
from toolyard.transports.client_profile import LISTED_SCOPE_KEY, ClientProfile
from toolyard.transports.mcp.http import ListenAddress, bearer_token, reject_unauthorized, yard_app


@dataclass(slots=True)
class _ServedYard:
    app: Starlette
    on_attached: Callable[[], None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    serving: asyncio.Task[None] | None = None
    is_attached: bool = False


class TokenRouter:
    def __init__(self, address: ListenAddress) -> None:
        self._address = address
        self._yards: dict[bytes, _ServedYard] = {}

    async def register(self, token: str, yard: Yard, profile: ClientProfile, on_attached: Callable[[], None]) -> None:
        """Serves `yard` for the token. `on_attached` is called once, when the tools were listed for it."""
        served = _ServedYard(yard_app(yard, self._address, profile), on_attached)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.serving = asyncio.create_task(_serve(served, ready))
        self._yards[_digest(token.encode())] = served  # from now on it can be unregistered, ready or not
        await ready

    async def unregister(self, token: str) -> None:
        """Invalidates the token and waits for its application to end."""
        served = self._yards.pop(_digest(token.encode()), None)
        if served is not None and served.serving is not None:
            served.stop.set()
            await served.serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        served = self._yards.get(_digest(bearer_token(scope["headers"])))
        if served is None:
            await reject_unauthorized(scope, receive, send)
            return
        listed: list[bool] = []
        scope[LISTED_SCOPE_KEY] = listed
        await served.app(scope, receive, send)
        if listed and not served.is_attached:  # the whole answer is on its way
            served.is_attached = True
            served.on_attached()


async def _serve(served: _ServedYard, ready: asyncio.Future[None]) -> None:
    """Runs the lifespan of one application. One task enters and exits it, as its task groups require."""
    try:
        async with served.app.router.lifespan_context(served.app):
            ready.set_result(None)
            await served.stop.wait()
    except Exception as error:
        if ready.done():
            raise
        ready.set_exception(error)


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message: Message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
