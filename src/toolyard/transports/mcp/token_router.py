"""Many workspaces behind one address: the token of a request says which of them it is for.

`TokenRouter` is an ASGI application and lives on one event loop. It owns what serves each guest from `register` to `unregister`,
after which the token opens nothing any more; it does not own their Yards. Tokens are kept as digests, so that finding
one takes as long whether it is nearly right or not.
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
        """Serve `yard` to whoever brings the token. `on_attached` is told once, when the tools were listed for it."""
        guest = _ServedYard(yard_app(yard, self._address, profile), on_attached)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        guest.serving = asyncio.create_task(_serve(guest, ready))
        self._yards[_digest(token.encode())] = guest  # from now on it can be dismissed, ready or not
        await ready

    async def unregister(self, token: str) -> None:
        guest = self._yards.pop(_digest(token.encode()), None)
        if guest is not None and guest.serving is not None:
            guest.stop.set()
            await guest.serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        guest = self._yards.get(_digest(bearer_token(scope["headers"])))
        if guest is None:
            await reject_unauthorized(scope, receive, send)
            return
        listed: list[bool] = []
        scope[LISTED_SCOPE_KEY] = listed
        await guest.app(scope, receive, send)
        if listed and not guest.is_attached:  # the answer is on its way, whole
            guest.is_attached = True
            guest.on_attached()


async def _serve(served: _ServedYard, ready: asyncio.Future[None]) -> None:
    """The life of what serves one guest. One task enters and leaves it, as its task groups want."""
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
