"""The server that runs of agent CLIs call: one address on the loopback, a token and a workspace for each run.

`Host` owns the listening socket and one thread with an event loop of its own, so that tools answer however busy the
caller's loop is. One host serves any number of runs at once. `close()` ends the thread; runs that are still under way
lose their tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import uvicorn

from toolyard.app.yard import Yard, YardOptions
from toolyard.core.closing import Closing
from toolyard.core.errors import SystemFault
from toolyard.serve.mcp.guests import Guests
from toolyard.serve.mcp.http import PATH, Address, listen
from toolyard.serve.mcp.terms import Terms

_LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 1
_CLOSE_SECONDS = 10.0
_TOKEN_BYTES = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stay:
    """One run's place at a host."""

    url: str
    token: str = field(repr=False)
    yard: Yard
    attached: threading.Event
    """Set once the server has listed its tools for this run's token."""


class Host(Closing):
    def __init__(self) -> None:
        """Listens from now on, at a free port of the loopback. Raises SystemFault."""
        address = Address(_LOOPBACK, 0)
        self._listener = listen(address)
        self.url = f"http://{_LOOPBACK}:{self._listener.getsockname()[1]}{PATH}"
        self._guests = Guests(address)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._guests,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._main, args=(ready,), name="toolyard-host", daemon=True)
        self._thread.start()
        self._loop = ready.result()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive() and not self._server.should_exit

    @contextlib.asynccontextmanager
    async def stay(self, options: YardOptions, terms_of: Callable[[Yard], Terms]) -> AsyncGenerator[Stay]:
        """Open a workspace and serve it under a fresh token, which is dead when this ends."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        attached = threading.Event()
        yard = await asyncio.to_thread(Yard.open, options)
        try:
            await self._on_loop(self._guests.admit(token, yard, terms_of(yard), attached.set))
            try:
                yield Stay(self.url, token, yard, attached)
            finally:
                if self.is_open:
                    await self._on_loop(self._guests.dismiss(token))
        finally:
            await asyncio.to_thread(yard.close)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)
        self._listener.close()

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError as error:  # the loop is closed
            work.close()
            raise SystemFault("The host of the run is closed.", hint="Open another one.") from error

    def _main(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner() as runner:
            ready.set_result(runner.get_loop())
            runner.run(self._server.serve(sockets=[self._listener]))
