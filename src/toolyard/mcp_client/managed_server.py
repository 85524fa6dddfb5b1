"""The lifecycle of one configured server: started on a call, shared, closed when idle, restarted after it ended.

A `ManagedServer` owns at most one connection, and runs on the pool's loop. After a failed start or repeated exits it
is not restarted before a pause is over: callers get the reason immediately. A local server that does not answer
several calls in a row is replaced.

`ServerSlots` limits how many local servers run at once. It lives on one loop and owns nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolyard.config.models import ToolyardSection
from toolyard.core.upstream import ServerListing, UpstreamProgress, UpstreamResult
from toolyard.mcp_client.connection import ConnectionCallbacks, UpstreamConnection
from toolyard.mcp_client.errors import CallFailed, CallRefused, CallTimedOut, ServerUnavailable, without_server_name
from toolyard.mcp_client.stderr_tail import OutputTail

MAX_RUNNING = ToolyardSection().max_running_servers
_CONFIG_KEY = "toolyard.max_running_servers"
_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
_HEALTHY_SECONDS = 30.0
"""A server that ran this long counts as healthy when it ends."""

_MAX_TIMEOUTS = 3
"""Consecutive unanswered calls after which an otherwise idle local server is replaced."""
_MAX_TIMEOUTS_ALWAYS = 10
"""The same, even with calls in flight."""
_MIN_COUNTED_SECONDS = 1.0
"""A call with a shorter timeout than this, and than the entry's, is no evidence of a stuck server."""

ConnectionState = Literal["idle", "starting", "running", "failed", "closed"]
ConnectionOpener = Callable[[ConnectionCallbacks], Awaitable[UpstreamConnection]]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server's status at one moment. Contains no value of its environment or headers."""

    name: str
    transport: str
    state: ConnectionState
    pid: int | None
    started: float | None
    """Start of the running process, as Unix time."""
    calls: int
    in_flight: int
    starts: int
    last_error: str
    retry_in: float
    """Seconds until it may be restarted after a failure."""
    stderr: str
    odd_lines: tuple[str, ...]
    protocol: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class ServerTimeouts:
    """Timeouts of a server, in seconds."""

    call_seconds: float
    start_seconds: float
    idle_seconds: float


class ManagedServer:
    """One configured server and its connection."""

    def __init__(
        self,
        name: str,
        transport: str,
        tail: OutputTail,
        open_connection: ConnectionOpener,
        timeouts: ServerTimeouts,
        *,
        slots: ServerSlots | None = None,
    ) -> None:
        """`slots` limits how many servers run at once."""
        self.name = name
        self._transport = transport
        self._tail = tail
        self._open_connection = open_connection
        self._time_limits = timeouts
        self._slots = slots
        self.listeners: dict[int, Callable[[str], None]] = {}
        """Callbacks for changes of its tools, by the user's id."""
        self._connection: UpstreamConnection | None = None
        self._start_task: asyncio.Task[UpstreamConnection] | None = None
        self._closing_task: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._listing: ServerListing | None = None
        self._listing_version = 0
        """Incremented whenever the listing may have changed."""
        self._closed = False
        self._in_flight = 0
        self._unanswered_calls = 0
        """Unanswered calls since the last answer."""
        self._last_used = 0.0
        self._calls = 0
        self._starts = 0
        self._started_wall_time: float | None = None
        self._started_monotonic = 0.0
        self._failures = 0
        self._retry_at = 0.0
        self._last_error = ""

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float | None, progress: UpstreamProgress | None
    ) -> UpstreamResult:
        self._in_flight += 1  # Counted during the start too, so that it is not closed as idle while callers wait.
        connection = self._connection
        try:
            if connection is None:
                connection = await self._ensure_connected(tool, seconds)
            self._calls += 1
            answer = await connection.call(tool, arguments, seconds or self._time_limits.call_seconds, progress)
        except CallTimedOut:
            if connection is not None:
                self._count_timeout(seconds or self._time_limits.call_seconds)
            raise
        except (CallFailed, CallRefused):
            self._unanswered_calls = 0
            raise
        else:
            self._unanswered_calls = 0
            return answer
        finally:
            self._finish_call()
            self._replace_if_stuck()

    @property
    def can_run_eagerly(self) -> bool:
        """Whether a call would only await the server's reply: it is running and its tools are known."""
        return self._connection is not None and self._connection.can_run_eagerly and self._listing is not None

    async def server_listing(self, *, fresh: bool = False) -> ServerListing:
        """Returns its tools: cached unless they changed or `fresh` is set."""
        self._in_flight += 1
        try:
            connection = self._connection or await self._ensure_connected("tools/list", None)
            if self._listing is not None and not fresh:
                return self._listing
            changes = self._listing_version
            listing = await connection.server_listing(self._time_limits.start_seconds)
        except CallTimedOut:
            self._count_timeout(self._time_limits.start_seconds)
            raise
        finally:
            self._finish_call()
            self._replace_if_stuck()
        if changes == self._listing_version:  # no change was announced meanwhile
            self._listing = listing
        return listing

    @property
    def idle_since(self) -> float | None:
        """Time of its last call; None if it is not running or a call is in flight."""
        return self._last_used if self._connection is not None and not self._in_flight else None

    async def end(self) -> None:
        """Stops the server and waits for it. The next call starts it again."""
        self._start_closing()
        if self._closing_task is not None:
            await asyncio.shield(self._closing_task)

    async def close(self) -> None:
        """Closes the server for good: later calls are refused."""
        self._closed = True
        if self._start_task is not None:
            self._start_task.cancel()
            await asyncio.wait((self._start_task,))
        await self.end()

    def status(self) -> ServerStatus:
        connection, now = self._connection, time.monotonic()
        handshake = connection.handshake if connection is not None else None
        retry_in = max(0.0, self._retry_at - now) if connection is None else 0.0
        return ServerStatus(
            name=self.name,
            transport=self._transport,
            state=self._state(),
            pid=connection.pid if connection is not None else None,
            started=self._started_wall_time if connection is not None else None,
            calls=self._calls,
            in_flight=self._in_flight,
            starts=self._starts,
            last_error=self._last_error,
            retry_in=retry_in,
            stderr=self._tail.stderr,
            odd_lines=self._tail.odd_lines,
            protocol=handshake.protocol if handshake is not None else "",
            version=handshake.version if handshake is not None else "",
        )

    def _state(self) -> ConnectionState:
        if self._closed:
            return "closed"
        if self._connection is not None:
            return "running"
        if self._start_task is not None:
            return "starting"
        return "failed" if self._failures else "idle"

    async def _ensure_connected(self, what: str, seconds: float | None) -> UpstreamConnection:
        """Returns the connection; the first caller starts it, and all others await the same start."""
        if self._closed:
            raise self.closed_error()
        starting = self._start_task
        if starting is None:
            pause = self._retry_at - time.monotonic()
            if pause > 0:
                why = without_server_name(self.name, self._last_error)
                raise ServerUnavailable(
                    self.name,
                    f"failed before and is not retried for {pause:.1f} s: {why}",
                    hint="Call it again after that.",
                )
            starting = self._start_task = asyncio.get_running_loop().create_task(self._start())
            starting.add_done_callback(_consume_exception)
        # The start continues if one caller gives up: others may await it.
        try:
            return await asyncio.wait_for(asyncio.shield(starting), seconds)
        except TimeoutError:
            raise CallTimedOut(self.name, what, seconds or 0.0) from None
        except asyncio.CancelledError:
            if starting.cancelled():  # the pool is closing; the caller was not cancelled
                raise self.closed_error() from None
            raise

    def closed_error(self) -> ServerUnavailable:
        return ServerUnavailable(self.name, "is closed", hint="Open the workspace again.", retryable=False)

    def _finish_call(self) -> None:
        self._in_flight -= 1
        self._last_used = time.monotonic()
        if self._slots is not None and not self._in_flight:
            self._slots.notify_waiters()

    def _count_timeout(self, seconds: float) -> None:
        if seconds >= min(_MIN_COUNTED_SECONDS, self._time_limits.call_seconds):
            self._unanswered_calls += 1

    def _replace_if_stuck(self) -> None:
        """Replaces a local server that does not answer. Remote servers are not ours to stop."""
        if self._transport != "stdio" or self._unanswered_calls < _MAX_TIMEOUTS:
            return
        if not self._in_flight or self._unanswered_calls >= _MAX_TIMEOUTS_ALWAYS:
            self._last_error = (
                f"Server '{self.name}' was replaced: it did not answer {self._unanswered_calls} calls in a row"
            )
            self._unanswered_calls = 0
            self._start_closing()

    async def _start(self) -> UpstreamConnection:
        try:
            if self._closing_task is not None:  # two instances of a server could conflict
                await asyncio.shield(self._closing_task)
            if self._slots is not None:
                await self._slots.acquire(self, self._time_limits.start_seconds)
            try:
                self._starts += 1
                self._started_wall_time = time.time()
                connection = await self._open_connection(ConnectionCallbacks(self._on_lost, self._on_list_changed))
            except BaseException as error:
                self._release_slot()
                if isinstance(error, ServerUnavailable):
                    self._record_failure(error)
                raise
        finally:
            self._start_task = None
        self._connection = connection
        self._started_monotonic = self._last_used = time.monotonic()
        self._schedule_idle_check(self._time_limits.idle_seconds)
        return connection

    def _on_lost(self, error: ServerUnavailable) -> None:
        if self._connection is None:  # the start reports the same error
            return
        if time.monotonic() - self._started_monotonic >= _HEALTHY_SECONDS:
            self._failures = 0
        self._reset_connection()
        self._release_slot()
        self._record_failure(error, first_is_free=True)

    def _record_failure(self, error: ServerUnavailable, *, first_is_free: bool = False) -> None:
        self._failures += 1
        self._last_error = str(error)
        # A server that worked is restarted immediately; only repeated failures cause pauses.
        doublings = self._failures - (2 if first_is_free else 1)
        pause = min(_FIRST_PAUSE_SECONDS * 2**doublings, _MAX_PAUSE_SECONDS) if doublings >= 0 else 0.0
        self._retry_at = time.monotonic() + pause

    def _on_list_changed(self) -> None:
        self._listing = None
        self._listing_version += 1
        for listener in tuple(self.listeners.values()):
            listener(self.name)

    def _schedule_idle_check(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        remaining = self._last_used + self._time_limits.idle_seconds - time.monotonic()
        if self._in_flight:
            remaining = self._time_limits.idle_seconds
        if remaining > 0:
            self._schedule_idle_check(remaining)
            return
        self._failures = 0
        self._start_closing()

    def _start_closing(self) -> None:
        connection = self._connection
        self._reset_connection()
        if connection is not None:
            self._closing_task = asyncio.get_running_loop().create_task(self._close_connection(connection))

    async def _close_connection(self, connection: UpstreamConnection) -> None:
        try:
            await connection.close()
        finally:
            self._closing_task = None
            self._release_slot()

    def _release_slot(self) -> None:
        if self._slots is not None:
            self._slots.release(self)

    def _reset_connection(self) -> None:
        self._connection = None
        self._listing = None
        self._listing_version += 1
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


class ServerSlots:
    """The slots for running local servers.

    If all slots are taken, the server that has been idle longest is stopped. If none is idle, the start waits for a
    call to end, and fails after the start timeout.
    """

    def __init__(self, limit: int = MAX_RUNNING) -> None:
        self._limit = limit
        self._holders: set[ManagedServer] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    async def acquire(self, server: ManagedServer, seconds: float) -> None:
        """Acquires a slot for a server that is about to start. Raises ServerUnavailable after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while len(self._holders) >= self._limit:
                    await self._make_room()
        except TimeoutError:
            raise ServerUnavailable(
                server.name,
                f"cannot be started: {self._limit} servers run already, and all of them are busy",
                hint=f"Try again when calls have ended, or raise `{_CONFIG_KEY}` in the configuration.",
            ) from None
        self._holders.add(server)

    def release(self, server: ManagedServer) -> None:
        """Releases the slot of a server."""
        self._holders.discard(server)
        self.notify_waiters()

    def notify_waiters(self) -> None:
        """Wakes waiting starts: a call has ended or a slot is free."""
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    async def _make_room(self) -> None:
        idle = [(since, holder) for holder in self._holders if (since := holder.idle_since) is not None]
        if idle:
            await min(idle, key=lambda each: each[0])[1].end()
            return
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await change
        finally:
            self._waiting.discard(change)


def _consume_exception(task: asyncio.Task[UpstreamConnection]) -> None:
    """Retrieves the exception of a start whose callers are all gone."""
    if not task.cancelled():
        task.exception()
