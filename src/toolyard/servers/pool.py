"""Every configured server behind one door: named, started on first call, shared by all callers.

The `ServerPool` owns the connections, the watchdog, and the loop's thread when it was not handed one. Attaching
servers starts nothing. `close()` ends every server in parallel and returns when they are gone. Credentials of the
entries stay in here: no error, status or `repr` shows a value of `env` or of a header.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolyard.config.expansion import expanded
from toolyard.config.models import ServerEntry
from toolyard.config.settings import environment
from toolyard.core.closing import Closing
from toolyard.core.errors import ConfigError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.core.upstream import Progress, ServerListing, ToolAnswer
from toolyard.servers.child import Program
from toolyard.servers.connection import Callbacks, Connection
from toolyard.servers.environment import server_environment
from toolyard.servers.faults import ServerUnavailable, UnknownServer
from toolyard.servers.loop import LoopThread
from toolyard.servers.masking import Mask
from toolyard.servers.oauth import OnAuthorize, SignIn
from toolyard.servers.stdio import StdioConnection
from toolyard.servers.tails import Tail
from toolyard.servers.upstream import Opener, Pace, ServerStatus, Upstream
from toolyard.servers.watchdog import Watchdog

IDLE_SECONDS = 300.0
START_SECONDS = 60.0
_CLOSE_SECONDS = 30.0
_REMOTE = "toolyard.servers.http"


class ServerPool(Closing):
    """`call` and `listing` are awaited on `loop`; other threads go through `loop.run(...)`."""

    def __init__(
        self,
        entries: Sequence[ServerEntry],
        *,
        loop: LoopThread | None = None,
        host_env: Mapping[str, str] | None = None,
        idle_seconds: float = IDLE_SECONDS,
        start_seconds: float = START_SECONDS,
        call_seconds: float = DEFAULT_LIMITS.call_seconds,
        on_list_changed: Callable[[str], None] | None = None,
        tokens_folder: str | None = None,
        on_authorize: OnAuthorize | None = None,
    ) -> None:
        """`tokens_folder` keeps sign-ins at remote servers; `on_authorize` shows the user where to sign in."""
        self._owns_loop = loop is None
        self.loop = loop or LoopThread("toolyard-servers")
        self._host_env = environment() if host_env is None else host_env
        self._watchdog = Watchdog()
        self._tokens_folder = tokens_folder
        self._on_authorize = on_authorize
        self._closed = False
        self._upstreams: dict[str, Upstream] = {}
        for entry in entries:
            mask = Mask()
            tail = Tail(mask)
            pace = Pace(entry.timeout or call_seconds, entry.startup_timeout or start_seconds, idle_seconds)
            opener = self._opener(entry, mask, tail, pace)
            self._upstreams[entry.name] = Upstream(
                entry.name, entry.transport, tail, opener, pace, on_list_changed=on_list_changed
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._upstreams)

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call: the server is told, too
        progress: Progress | None = None,
    ) -> ToolAnswer:
        """Call a tool, starting its server where it does not run. Cancelling the caller tells the server."""
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise UnknownServer(server, self._upstreams)
        return await upstream.call(tool, arguments, timeout, progress)

    def goes_straight(self, server: str) -> bool:
        """Whether a call of now waits for a `Reply` alone, so that it needs no task of its own."""
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.goes_straight

    async def listing(self, server: str, *, fresh: bool = False) -> ServerListing:
        """What a server offers, read again when it said that this changed."""
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise UnknownServer(server, self._upstreams)
        return await upstream.listing(fresh=fresh)

    def status(self) -> dict[str, ServerStatus]:
        """From any thread; starts nothing."""
        return {name: upstream.status() for name, upstream in self._upstreams.items()}

    async def aclose(self) -> None:
        """End every server; for callers on the loop."""
        await asyncio.gather(*(upstream.close() for upstream in self._upstreams.values()))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self.loop.run(self.aclose(), _CLOSE_SECONDS)
        finally:
            self._watchdog.close()
            if self._owns_loop:
                self.loop.close()

    def _opener(self, entry: ServerEntry, mask: Mask, tail: Tail, pace: Pace) -> Opener:
        async def open_connection(callbacks: Callbacks) -> Connection:
            started = self._expanded(entry)
            mask.learn(entry, started)
            if started.transport == "stdio":
                env = server_environment(self._host_env, started.env)
                program = Program(started.name, started.command_line, env, started.cwd)
                return await StdioConnection.open(
                    program, mask, tail, callbacks, watchdog=self._watchdog, seconds=pace.start_seconds
                )
            # With it comes the SDK, which takes a while: aside, because the other servers are on this loop.
            await asyncio.to_thread(importlib.import_module, _REMOTE)
            from toolyard.servers.http import HttpConnection

            sign_in = SignIn(started, self._tokens_folder, self._on_authorize, mask)
            return await HttpConnection.open(
                started, mask, tail, callbacks, sign_in=sign_in, seconds=pace.start_seconds
            )

        return open_connection

    def _expanded(self, entry: ServerEntry) -> ServerEntry:
        """With the values of variables, which are looked up at each start and kept nowhere else."""
        try:
            return expanded(entry, self._host_env)
        except ConfigError as error:
            raise ServerUnavailable(
                entry.name, f"cannot be started: {error.message}", hint=error.hint, retryable=False
            ) from None
