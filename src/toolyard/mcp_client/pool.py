"""The servers attached to one agent, by name, started on the first call.

A `ServerPool` uses the servers of a `SharedServers`, and owns it if it was not passed one. Attaching starts nothing.
`close()` stops the servers that no other pool uses, in parallel, and waits for them. No error, status or `repr` shows
a value of `env` or of a header.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from toolyard.config.models import ServerEntry
from toolyard.core.closeable import Closeable
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.core.loop_thread import LoopThread
from toolyard.core.upstream import ServerListing, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.errors import UnknownServer
from toolyard.mcp_client.managed_server import ManagedServer, ServerStatus, ServerTimeouts
from toolyard.mcp_client.oauth import OnAuthorize
from toolyard.mcp_client.shared_servers import CLOSE_SECONDS, ServerUse, SharedServers

IDLE_SECONDS = 300.0
START_SECONDS = 60.0


class ServerPool(Closeable):
    """Servers of one agent. Await `call` and `server_listing` on `loop`; other threads use `loop.run(...)`."""

    def __init__(
        self,
        entries: Sequence[ServerEntry],
        *,
        shared: SharedServers | None = None,
        loop: LoopThread | None = None,
        host_env: Mapping[str, str] | None = None,
        idle_seconds: float = IDLE_SECONDS,
        start_seconds: float = START_SECONDS,
        call_seconds: float = DEFAULT_LIMITS.call_seconds,
        on_list_changed: Callable[[str], None] | None = None,
        tokens_folder: str | None = None,
        on_authorize: OnAuthorize | None = None,
    ) -> None:
        """`tokens_folder` stores sign-ins at remote servers; `on_authorize` shows the user the sign-in URL.

        `loop` and `host_env` apply to its own servers; `shared` has its own.
        """
        self._owns_servers = shared is None
        self._shared = shared or SharedServers(loop=loop, host_env=host_env)
        self.loop = self._shared.loop
        self._default_timeouts = (call_seconds, start_seconds, idle_seconds)
        self._on_list_changed = on_list_changed
        self._tokens_folder = tokens_folder
        self._on_authorize = on_authorize
        self._is_closing = self._closed = False
        self._servers: dict[str, ManagedServer] = {}
        self.entries: Mapping[str, ServerEntry] = {}
        """Entries of the attached servers, by name."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: ServerEntry) -> None:
        """Attaches a server."""
        call_seconds, start_seconds, idle_seconds = self._default_timeouts
        pace = ServerTimeouts(entry.timeout or call_seconds, entry.startup_timeout or start_seconds, idle_seconds)
        use = ServerUse(pace, self._on_list_changed, self._tokens_folder, self._on_authorize)
        self._servers[entry.name] = self._shared.acquire(self, entry, use)
        self.entries = {**self.entries, entry.name: entry}

    def detach(self, name: str) -> Coroutine[Any, Any, None]:
        """Detaches a server immediately; the returned coroutine stops it unless another agent uses it."""
        upstream = self._servers.pop(name)
        self.entries = {known: entry for known, entry in self.entries.items() if known != name}
        return self._shared.release(self, upstream)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call: cancelled on the server too
        progress: UpstreamProgress | None = None,
    ) -> UpstreamResult:
        """Calls a tool, and starts its server if needed. Cancelling the caller cancels the call on the server."""
        return await self._attached_server(server).call(tool, arguments, timeout, progress)

    def can_run_eagerly(self, server: str) -> bool:
        """Whether a call would await only an `InlineFuture`, so that it needs no task of its own."""
        upstream = self._servers.get(server)
        return upstream is not None and upstream.can_run_eagerly

    async def server_listing(self, server: str, *, fresh: bool = False) -> ServerListing:
        """Returns what a server offers; fetched again if the server announced a change."""
        return await self._attached_server(server).server_listing(fresh=fresh)

    def status(self) -> dict[str, ServerStatus]:
        """Returns the status of every server. Callable from any thread; starts nothing."""
        return {name: upstream.status() for name, upstream in self._servers.items()}

    async def aclose(self) -> None:
        """Stops every server that no other pool uses; for callers on the loop."""
        self._is_closing = True
        await self._shared.release(self)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.loop.run(self.aclose(), CLOSE_SECONDS)
        finally:
            if self._owns_servers:
                self._shared.close()

    def _attached_server(self, server: str) -> ManagedServer:
        upstream = self._servers.get(server)
        if upstream is None:
            raise UnknownServer(server, self._servers)
        if self._is_closing:
            raise upstream.closed_error()
        return upstream
