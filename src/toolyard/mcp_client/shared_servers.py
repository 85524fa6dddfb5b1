"""The running servers of a process, shared by the pools of its agents.

`SharedServers` owns the connections, the watchdog and the loop's thread. Pools with equal entries share one server
process; an entry that differs in anything the server could notice gets its own process, and so does every pool if the
entry says `shared: false`. A server stops when the last pool that uses it closes. Nothing starts, not even the
thread, before a pool opens. Authorization is decided above the pools.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolyard.config.expansion import expand_entry
from toolyard.config.models import ServerEntry
from toolyard.config.settings import environment
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError
from toolyard.core.loop_thread import LoopThread
from toolyard.mcp_client.connection import ConnectionCallbacks, UpstreamConnection
from toolyard.mcp_client.environment import proxy_secrets, server_environment
from toolyard.mcp_client.errors import ServerUnavailable
from toolyard.mcp_client.managed_server import (
    MAX_RUNNING,
    ConnectionOpener,
    ManagedServer,
    ServerSlots,
    ServerTimeouts,
)
from toolyard.mcp_client.oauth import OnAuthorize, SignIn
from toolyard.mcp_client.process import ServerProgram
from toolyard.mcp_client.results import SecretMask
from toolyard.mcp_client.stderr_tail import OutputTail
from toolyard.mcp_client.stdio import StdioConnection
from toolyard.mcp_client.watchdog import Watchdog

CLOSE_SECONDS = 30.0
_HTTP_MODULE = "toolyard.mcp_client.http"
_CLIENT_ONLY_KEYS = frozenset({"allowed_tools", "exclude_tools", "description", "disabled", "pinned"})
"""Entry keys that do not affect the server."""


@dataclass(frozen=True, slots=True)
class ServerUse:
    """How one pool uses a server."""

    timeouts: ServerTimeouts
    on_list_changed: Callable[[str], None] | None = None
    tokens_folder: str | None = None
    on_authorize: OnAuthorize | None = None


@dataclass(slots=True)
class _SharedServer:
    server: ManagedServer
    users: set[int] = field(default_factory=set[int])


class SharedServers(Closeable):
    """Shared servers. `acquire` and `release` are thread-safe; the servers run on `loop`."""

    def __init__(
        self,
        *,
        loop: LoopThread | None = None,
        host_env: Mapping[str, str] | None = None,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._given_loop = loop
        self._own_loop: LoopThread | None = None
        self._host_env = environment() if host_env is None else host_env
        self._watchdog = Watchdog()
        self._slots = ServerSlots(max_running)
        self._lock = threading.Lock()
        self._servers: dict[str, _SharedServer] = {}

    @property
    def loop(self) -> LoopThread:
        with self._lock:
            if self._given_loop is not None:
                return self._given_loop
            self._own_loop = self._own_loop or LoopThread("toolyard-servers")
            return self._own_loop

    def acquire(self, user: object, entry: ServerEntry, use: ServerUse) -> ManagedServer:
        """Returns the server of an entry for `user`. Starts nothing."""
        key = _sharing_key(user, entry, use)
        with self._lock:
            shared = self._servers.get(key)
            if shared is None:
                shared = self._servers[key] = _SharedServer(self._create_server(entry, use))
            shared.users.add(id(user))
            if use.on_list_changed is not None:
                shared.server.listeners[id(user)] = use.on_list_changed
            return shared.server

    async def release(self, user: object, only: ManagedServer | None = None) -> None:
        """Releases all servers of `user`, or `only` one, and stops the unused. For callers on the loop."""
        unused: list[ManagedServer] = []
        with self._lock:
            for key, shared in list(self._servers.items()):
                if only is not None and shared.server is not only:
                    continue
                shared.users.discard(id(user))
                shared.server.listeners.pop(id(user), None)
                if not shared.users:
                    unused.append(self._servers.pop(key).server)
        await asyncio.gather(*(upstream.close() for upstream in unused))

    def close(self) -> None:
        """Stops all servers, even if they are in use."""
        with self._lock:
            upstreams = [shared.server for shared in self._servers.values()]
            self._servers.clear()
            loop = self._given_loop or self._own_loop
        try:
            if loop is not None and upstreams:
                loop.run(_close_all(upstreams), CLOSE_SECONDS)
        finally:
            self._watchdog.close()
            if self._own_loop is not None:
                self._own_loop.close()

    def _create_server(self, entry: ServerEntry, use: ServerUse) -> ManagedServer:
        mask = SecretMask()
        tail = OutputTail(mask)
        slots = self._slots if entry.transport == "stdio" else None
        return ManagedServer(
            entry.name,
            entry.transport,
            tail,
            self._connection_opener(entry, mask, tail, use),
            use.timeouts,
            slots=slots,
        )

    def _connection_opener(
        self, entry: ServerEntry, mask: SecretMask, tail: OutputTail, use: ServerUse
    ) -> ConnectionOpener:
        async def open_connection(callbacks: ConnectionCallbacks) -> UpstreamConnection:
            started = self._expand_variables(entry)
            seconds = use.timeouts.start_seconds
            if started.transport == "stdio":
                env = server_environment(self._host_env, started.env)
                mask.learn_entry(entry, started, proxy_secrets(env))
                program = ServerProgram(started.name, started.command_line, env, started.cwd)
                return await StdioConnection.open(
                    program, mask, tail, callbacks, watchdog=self._watchdog, seconds=seconds
                )
            mask.learn_entry(entry, started)
            # In a thread: the SDK takes a while to import, and other servers share this loop.
            await asyncio.to_thread(importlib.import_module, _HTTP_MODULE)
            from toolyard.mcp_client.http import HttpConnection

            sign_in = SignIn(started, use.tokens_folder, use.on_authorize, mask)
            return await HttpConnection.open(started, mask, tail, callbacks, sign_in=sign_in, seconds=seconds)

        return open_connection

    def _expand_variables(self, entry: ServerEntry) -> ServerEntry:
        """Returns the entry with variables expanded. Done at each start, so values are stored nowhere else."""
        try:
            return expand_entry(entry, self._host_env)
        except ConfigError as error:
            raise ServerUnavailable(
                entry.name, f"cannot be started: {error.message}", hint=error.hint, retryable=False
            ) from None


async def _close_all(servers: list[ManagedServer]) -> None:
    await asyncio.gather(*(upstream.close() for upstream in servers))


def _sharing_key(user: object, entry: ServerEntry, use: ServerUse) -> str:
    """Returns the key under which equal uses share one process or connection."""
    parts = [entry.model_dump_json(exclude=set(_CLIENT_ONLY_KEYS)), repr(use.timeouts)]
    if entry.transport != "stdio":
        parts += [use.tokens_folder or "", str(id(use.on_authorize))]
    if not entry.shared:
        parts.append(str(id(user)))
    return "\n".join(parts)
