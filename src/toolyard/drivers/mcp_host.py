"""The server that runs of agent CLIs call: one address on the loopback, a token and a workspace for each run.

`Host` owns the listening socket and one thread with an event loop of its own, so that tools answer however busy the
caller's loop is. One host serves any number of runs at once. `close()` ends the thread, and with it the
runs that are still under way: they fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.threaded_open import close_in_thread, open_in_thread
from toolyard.transports.client_profile import ClientProfile
from toolyard.transports.mcp.http import PATH, ListenAddress, listen
from toolyard.transports.mcp.http_connections import KEEP_ALIVE_SECONDS, BoundedHttpProtocol
from toolyard.transports.mcp.token_router import TokenRouter

if TYPE_CHECKING:
    from toolyard.mcp_client import SharedServers

_LOOPBACK = "127.0.0.1"
_GRACE_SECONDS = 1
_CLOSE_SECONDS = 10.0
_POLL_SECONDS = 1.0
_TOKEN_BYTES = 32

T = TypeVar("T")


# They tell of requests that ended with their run or their host, with tracebacks: of interest to who asked for logs.
for _name in ("uvicorn", "mcp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Lease:
    """One run's place at a host."""

    url: str
    token: str = field(repr=False)
    yard: Yard
    attached: threading.Event
    """Set once the server has listed its tools for this run's token."""


class Host(Closeable):
    def __init__(self, servers: SharedServers | None = None) -> None:
        """Listens from now on, at a free port of the loopback. Raises SystemFault.

        The workspaces of its runs use `servers` together, which it does not own.
        """
        self._servers = servers
        address = ListenAddress(_LOOPBACK, 0)
        self._listener = listen(address)
        self.url = f"http://{_LOOPBACK}:{self._listener.getsockname()[1]}{PATH}"
        self._router = TokenRouter(address)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._router,
                log_config=None,  # how the program that we are part of logs is its own affair
                access_log=False,
                server_header=False,
                lifespan="on",
                ws="none",
                http=BoundedHttpProtocol,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._watchers: set[Callable[[], object]] = set()
        ready: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._main, args=(ready,), name="toolyard-host", daemon=True)
        self._thread.start()
        self._loop = ready.result()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive() and not self._server.should_exit

    @contextlib.asynccontextmanager
    async def lease(self, options: YardOptions, profile_of: Callable[[Yard], ClientProfile]) -> AsyncGenerator[Lease]:
        """Open a workspace and serve it under a fresh token, which is dead when this ends."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        attached = threading.Event()
        shared = replace(options, servers=self._servers or options.servers)
        yard = await open_in_thread(lambda: Yard.open(shared))
        try:
            try:
                await self._run_on_host_loop(self._router.register(token, yard, profile_of(yard), attached.set))
                yield Lease(self.url, token, yard, attached)
            finally:
                if self.is_open:
                    with contextlib.suppress(SystemFault):  # closed by now, and the token with it
                        await self._run_on_host_loop(self._router.unregister(token))
        finally:
            await close_in_thread(yard)

    @contextlib.contextmanager
    def notify_on_end(self, on_end: Callable[[], object]) -> Generator[None]:
        """`on_end` is called, in whichever thread, if the host ends in the meantime."""
        self._watchers.add(on_end)
        try:
            yield
        finally:
            self._watchers.discard(on_end)

    def close(self) -> None:
        self._notify_watchers()
        self._server.should_exit = True
        self._thread.join(_CLOSE_SECONDS)
        self._listener.close()

    async def _run_on_host_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done on the host's loop. Who is cancelled meanwhile does not stop it. Raises SystemFault."""
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # the loop is closed
            work.close()
            raise _closed_error() from error
        answer = asyncio.wrap_future(asked)
        while not answer.done():
            await asyncio.wait({answer}, timeout=_POLL_SECONDS)
            if not self._thread.is_alive() and not asked.done():  # asked in its last moment, and never heard
                break
        if not answer.done() or asked.cancelled():  # its loop ended with it: that cancels nobody here
            raise _closed_error()
        return answer.result()

    def _main(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            with asyncio.Runner() as runner:
                ready.set_result(runner.get_loop())
                runner.run(self._server.serve(sockets=[self._listener]))
        finally:
            self._notify_watchers()

    def _notify_watchers(self) -> None:
        for on_end in tuple(self._watchers):
            on_end()


def _closed_error() -> SystemFault:
    return SystemFault("The host of the run is closed.", hint="Open another one.")
