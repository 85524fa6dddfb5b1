"""One configured server over time: started when called, shared, closed when idle, started again after it ended.

An `Upstream` owns at most one connection. Everything happens on the pool's loop. A start that failed, or a server
that keeps ending, is not tried again before its pause is over: callers are told at once, with the reason. A local
server that does not answer several calls in a row is ended, and the next call starts another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolyard.core.upstream import Progress, ServerListing, ToolAnswer
from toolyard.mcp_client.connection import Callbacks, Connection
from toolyard.mcp_client.errors import CallFailed, CallRefused, CallTimedOut, ServerUnavailable, told_of_it
from toolyard.mcp_client.server_slots import ServerSlots
from toolyard.mcp_client.stderr_tail import Tail

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_HEALTHY_SECONDS = 30.0
"""A server that ran this long before it ended has not been failing."""

_MOST_TIMEOUTS = 3
"""Calls in a row without an answer, after which a local server is replaced once no call is under way."""
_MOST_TIMEOUTS_AT_ALL = 10
"""The same, whatever is under way."""
_FAIR_SECONDS = 1.0
"""A call that gave the server less time than this, and less than its entry says, tells nothing about it."""

State = Literal["idle", "starting", "running", "failed", "closed"]
Opener = Callable[[Callbacks], Awaitable[Connection]]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server at one moment. Carries no value of its environment or its headers."""

    name: str
    transport: str
    state: State
    pid: int | None
    started: float | None
    """When the running process was started, in seconds of the wall clock."""
    calls: int
    in_flight: int
    starts: int
    last_error: str
    retry_in: float
    """Seconds until it may be started again after a failure."""
    stderr: str
    odd_lines: tuple[str, ...]
    protocol: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a server."""

    call_seconds: float
    start_seconds: float
    idle_seconds: float


class Upstream:
    def __init__(
        self,
        name: str,
        transport: str,
        tail: Tail,
        open_connection: Opener,
        pace: Pace,
        *,
        slots: ServerSlots | None = None,
    ) -> None:
        """`slots` bound how many servers run at once."""
        self.name = name
        self._transport = transport
        self._tail = tail
        self._open = open_connection
        self._pace = pace
        self._slots = slots
        self.listeners: dict[int, Callable[[str], None]] = {}
        """Told when its tools have changed, by who they are."""
        self._connection: Connection | None = None
        self._starting: asyncio.Task[Connection] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._listing: ServerListing | None = None
        self._changes = 0
        """Grows whenever the listing may have become another one."""
        self._closed = False
        self._in_flight = 0
        self._timeouts = 0
        """Calls without an answer since the last answer."""
        self._used = 0.0
        self._calls = 0
        self._starts = 0
        self._started: float | None = None
        self._started_at = 0.0
        self._failures = 0
        self._not_before = 0.0
        self._last_error = ""

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float | None, progress: Progress | None
    ) -> ToolAnswer:
        self._in_flight += 1  # also while it starts: who waits for it must not find it closed as idle
        connection = self._connection
        try:
            if connection is None:
                connection = await self._ready(tool, seconds)
            self._calls += 1
            answer = await connection.call(tool, arguments, seconds or self._pace.call_seconds, progress)
        except CallTimedOut:
            if connection is not None:
                self._count_timeout(seconds or self._pace.call_seconds)
            raise
        except (CallFailed, CallRefused):
            self._timeouts = 0
            raise
        else:
            self._timeouts = 0
            return answer
        finally:
            self._call_ended()
            self._replace_if_stuck()

    @property
    def goes_straight(self) -> bool:
        """Whether a call of now waits for the server's reply alone: it runs, and its tools are known."""
        return self._connection is not None and self._connection.goes_straight and self._listing is not None

    async def listing(self, *, fresh: bool = False) -> ServerListing:
        """Its tools; those known already unless they changed, or `fresh` ones are asked for."""
        self._in_flight += 1
        try:
            connection = self._connection or await self._ready("tools/list", None)
            if self._listing is not None and not fresh:
                return self._listing
            changes = self._changes
            listing = await connection.listing(self._pace.start_seconds)
        except CallTimedOut:
            self._count_timeout(self._pace.start_seconds)
            raise
        finally:
            self._call_ended()
            self._replace_if_stuck()
        if changes == self._changes:  # none was told while it was being read
            self._listing = listing
        return listing

    @property
    def idle_since(self) -> float | None:
        """The moment of its last call; None where it does not run, or a call is under way."""
        return self._used if self._connection is not None and not self._in_flight else None

    async def end(self) -> None:
        """End it, and return when it is gone. The next call starts it again."""
        self._end()
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def close(self) -> None:
        """For good: later calls are refused."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait((self._starting,))
        await self.end()

    def status(self) -> ServerStatus:
        connection, now = self._connection, time.monotonic()
        said = connection.agreement if connection is not None else None
        retry_in = max(0.0, self._not_before - now) if connection is None else 0.0
        return ServerStatus(
            name=self.name,
            transport=self._transport,
            state=self._state(),
            pid=connection.pid if connection is not None else None,
            started=self._started if connection is not None else None,
            calls=self._calls,
            in_flight=self._in_flight,
            starts=self._starts,
            last_error=self._last_error,
            retry_in=retry_in,
            stderr=self._tail.stderr,
            odd_lines=self._tail.odd_lines,
            protocol=said.protocol if said is not None else "",
            version=said.version if said is not None else "",
        )

    def _state(self) -> State:
        if self._closed:
            return "closed"
        if self._connection is not None:
            return "running"
        if self._starting is not None:
            return "starting"
        return "failed" if self._failures else "idle"

    async def _ready(self, what: str, seconds: float | None) -> Connection:
        """The connection, started by whoever comes first; everybody else waits for the same start."""
        if self._closed:
            raise self.closed_error()
        starting = self._starting
        if starting is None:
            pause = self._not_before - time.monotonic()
            if pause > 0:
                why = told_of_it(self.name, self._last_error)
                raise ServerUnavailable(
                    self.name,
                    f"failed before and is not tried again for {pause:.1f} s: {why}",
                    hint="Call it again then.",
                )
            starting = self._starting = asyncio.get_running_loop().create_task(self._start())
            starting.add_done_callback(_look_at)
        # The start goes on when one caller gives up: others may wait for it.
        try:
            return await asyncio.wait_for(asyncio.shield(starting), seconds)
        except TimeoutError:
            raise CallTimedOut(self.name, what, seconds or 0.0) from None
        except asyncio.CancelledError:
            if starting.cancelled():  # the pool is being closed; the caller was not cancelled
                raise self.closed_error() from None
            raise

    def closed_error(self) -> ServerUnavailable:
        return ServerUnavailable(self.name, "is closed", hint="Open the workspace again.", retryable=False)

    def _call_ended(self) -> None:
        self._in_flight -= 1
        self._used = time.monotonic()
        if self._slots is not None and not self._in_flight:
            self._slots.look_again()

    def _count_timeout(self, seconds: float) -> None:
        if seconds >= min(_FAIR_SECONDS, self._pace.call_seconds):
            self._timeouts += 1

    def _replace_if_stuck(self) -> None:
        """A remote server is not ours to end."""
        if self._transport != "stdio" or self._timeouts < _MOST_TIMEOUTS:
            return
        if not self._in_flight or self._timeouts >= _MOST_TIMEOUTS_AT_ALL:
            self._last_error = f"Server '{self.name}' was replaced: it did not answer {self._timeouts} calls in a row"
            self._timeouts = 0
            self._end()

    async def _start(self) -> Connection:
        try:
            if self._ending is not None:  # two of the same server at once could be in each other's way
                await asyncio.shield(self._ending)
            if self._slots is not None:
                await self._slots.take(self, self._pace.start_seconds)
            try:
                self._starts += 1
                self._started = time.time()
                connection = await self._open(Callbacks(self._lost, self._list_changed))
            except BaseException as error:
                self._give_slot_back()
                if isinstance(error, ServerUnavailable):
                    self._failed(error)
                raise
        finally:
            self._starting = None
        self._connection = connection
        self._started_at = self._used = time.monotonic()
        self._watch_idle(self._pace.idle_seconds)
        return connection

    def _lost(self, error: ServerUnavailable) -> None:
        if self._connection is None:  # during its start, which tells the same
            return
        if time.monotonic() - self._started_at >= _HEALTHY_SECONDS:
            self._failures = 0
        self._forget()
        self._give_slot_back()
        self._failed(error, first_is_free=True)

    def _failed(self, error: ServerUnavailable, *, first_is_free: bool = False) -> None:
        self._failures += 1
        self._last_error = str(error)
        # A server that worked is started again at once; only when that does not help there are pauses.
        doublings = self._failures - (2 if first_is_free else 1)
        pause = min(_FIRST_PAUSE_SECONDS * 2**doublings, _LONGEST_PAUSE_SECONDS) if doublings >= 0 else 0.0
        self._not_before = time.monotonic() + pause

    def _list_changed(self) -> None:
        self._listing = None
        self._changes += 1
        for tell in tuple(self.listeners.values()):
            tell(self.name)

    def _watch_idle(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._look_idle)

    def _look_idle(self) -> None:
        left = self._used + self._pace.idle_seconds - time.monotonic()
        if self._in_flight:
            left = self._pace.idle_seconds
        if left > 0:
            self._watch_idle(left)
            return
        self._failures = 0
        self._end()

    def _end(self) -> None:
        connection = self._connection
        self._forget()
        if connection is not None:
            self._ending = asyncio.get_running_loop().create_task(self._end_of(connection))

    async def _end_of(self, connection: Connection) -> None:
        try:
            await connection.close()
        finally:
            self._ending = None
            self._give_slot_back()

    def _give_slot_back(self) -> None:
        if self._slots is not None:
            self._slots.give_back(self)

    def _forget(self) -> None:
        self._connection = None
        self._listing = None
        self._changes += 1
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


def _look_at(task: asyncio.Task[Connection]) -> None:
    """A start whose callers have all gone has nobody else to look at its error."""
    if not task.cancelled():
        task.exception()
