"""The MCP server for runs of agent CLIs: one loopback address, with a token and a workspace for each run.

`Host` owns the listening socket and one thread with its own event loop, so that tools answer even if the caller's
loop is busy. One host serves any number of runs. `close()` ends the thread; runs that are still active fail.
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


# They log tracebacks for requests that ended with their run or host: only for callers that configured logging.
for _name in ("uvicorn", "mcp"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Lease:
    """One run's access to a host."""

    url: str
    token: str = field(repr=False)
    yard: Yard
    attached: threading.Event
    """Set once the server has listed its tools for this run's token."""


class Host(Closeable):
    """Serves workspaces to agent CLIs on the loopback interface.

    Args:
        servers: Upstream MCP servers that the workspaces of all runs share. The host does not own them.

    Raises:
        SystemFault: No port can be opened.

    Example:
        ```python
        with Host() as host:
            first = drive("claude", "Write the tests", workspace="a", host=host)
            second = drive("gemini", "Write the docs", workspace="b", host=host)
        ```

    """

    def __init__(self, servers: SharedServers | None = None) -> None:
        """Listens on a free port of the loopback interface."""
        self._servers = servers
        address = ListenAddress(_LOOPBACK, 0)
        self._listener = listen(address)
        self.url = f"http://{_LOOPBACK}:{self._listener.getsockname()[1]}{PATH}"
        self._router = TokenRouter(address)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._router,
                log_config=None,  # logging belongs to the embedding program
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
        """Opens a workspace and serves it under a new token, which is revoked at the end."""
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
                    with contextlib.suppress(SystemFault):  # already closed, together with the token
                        await self._run_on_host_loop(self._router.unregister(token))
        finally:
            await close_in_thread(yard)

    @contextlib.contextmanager
    def notify_on_end(self, on_end: Callable[[], object]) -> Generator[None]:
        """Calls `on_end`, from any thread, if the host ends meanwhile."""
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
        """Runs `work` on the host's loop. Cancelling the caller does not stop it. Raises SystemFault."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # the loop is closed
            work.close()
            raise _closed_error() from error
        answer = asyncio.wrap_future(future)
        while not answer.done():
            await asyncio.wait({answer}, timeout=_POLL_SECONDS)
            if not self._thread.is_alive() and not future.done():  # scheduled too late: the loop never ran it
                break
        if not answer.done() or future.cancelled():  # the loop ended and cancelled it; the caller was not cancelled
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
