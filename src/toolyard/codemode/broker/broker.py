"""The broker of one agent: a unix socket in a private folder, served on the loop that it is given.

Contract: who reaches the socket is the agent; the folder is shown in that agent's sandbox and in no other. `Broker`
owns its two sockets, every connection and every call that came through them; `close()` may be called from any thread
and more than once, ends all of it, and removes the sockets (and the folder, if `open` made it). The loop stays its
owner's. Another broker on the same folder takes over where an earlier one was closed or killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

from toolyard.codemode.broker.admission import BUFFER_BYTES, DEFAULT_BROKER_LIMITS, Account, BrokerLimits
from toolyard.codemode.broker.connection import Connection, last_words
from toolyard.codemode.broker.fd_passing import Hands
from toolyard.codemode.broker.frames import framed
from toolyard.codemode.broker.requests import GoesStraight, Handler, never_straight
from toolyard.codemode.broker.unix_listener import Door
from toolyard.core.closeable import Closing
from toolyard.sandbox.guest_layout import BROKER_HAND, BROKER_SOCKET
from toolyard.storage.private_folders import socket_folder
from toolyard.storage.temp_folders import TemporaryFolder

_END_SECONDS = 5.0
"""How long `close()` waits for calls to clean up after they were cancelled."""
_LOOKS_A_STALL = 4
_MOST_BETWEEN_LOOKS = 1.0
_CLOSING = "the broker is closing"


class Broker(Closing):
    def __init__(
        self,
        folder: str,
        agent: str,
        handler: Handler,
        loop: asyncio.AbstractEventLoop,
        limits: BrokerLimits = DEFAULT_BROKER_LIMITS,
        *,
        goes_straight: GoesStraight = never_straight,
    ) -> None:
        """`folder` is there already, and private to the user. `loop` need not run yet."""
        self.folder = os.path.realpath(folder)
        self.agent, self.handler, self.loop, self.limits = agent, handler, loop, limits
        self.goes_straight = goes_straight
        self.account = Account(limits)
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self._owned: TemporaryFolder | None = None
        self._is_closed = False
        self._connections: set[Connection] = set()
        self._coming: set[asyncio.Task[None]] = set()
        self.connections = 0
        """That are open, or about to be."""
        self._watched: set[Connection] = set()
        self._next_look: asyncio.TimerHandle | None = None
        self._hands = Hands(loop, self._adopt)
        self._doors = [Door(self.folder, BROKER_SOCKET, self._adopt)]
        try:
            self._doors.append(Door(self.folder, BROKER_HAND, self._hands.add))
        except BaseException:
            self._doors[0].close()
            raise
        for door in self._doors:
            loop.call_soon_threadsafe(door.open_on, loop)

    @classmethod
    def open(
        cls,
        agent: str,
        handler: Handler,
        loop: asyncio.AbstractEventLoop,
        limits: BrokerLimits = DEFAULT_BROKER_LIMITS,
        *,
        goes_straight: GoesStraight = never_straight,
    ) -> Broker:
        """In a new folder of its own, which goes with it."""
        with contextlib.ExitStack() as undo:
            owned = undo.enter_context(TemporaryFolder("broker", socket_folder()))
            broker = cls(owned.path, agent, handler, loop, limits, goes_straight=goes_straight)
            broker._owned = owned
            undo.pop_all()
        return broker

    @property
    def socket_path(self) -> str:
        """Where code that runs beside the host, in no sandbox, finds it."""
        return f"{self.folder}/{BROKER_SOCKET}"

    @property
    def calls(self) -> int:
        """How many are under way."""
        return sum(len(connection.calls) for connection in self._connections)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self.loop.is_running():
            self._close_doors()
        elif _runs_here(self.loop):
            self._end_all()
        else:
            with contextlib.suppress(TimeoutError, RuntimeError):  # the loop may end before we do
                asyncio.run_coroutine_threadsafe(self._finish(), self.loop).result(_END_SECONDS)
            self._close_doors()
        if self._owned is not None:
            self._owned.close()

    # What connections call

    def came(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._is_closed:
            connection.end(_CLOSING)

    def went(self, connection: Connection) -> None:
        self.connections -= 1
        self._connections.discard(connection)
        self._watched.discard(connection)

    def watch(self, connection: Connection) -> None:
        self._watched.add(connection)
        if self._next_look is None:
            between = min(self.limits.stall_seconds / _LOOKS_A_STALL, _MOST_BETWEEN_LOOKS)
            self._next_look = self.loop.call_later(between, self._look)

    def unread(self) -> int:
        return sum(connection.unread for connection in self._connections)

    # On the loop

    def _look(self) -> None:
        self._next_look = None
        watched, self._watched = self._watched, set()
        for connection in watched:
            if connection.look():
                self.watch(connection)

    def _adopt(self, connected: socket.socket) -> bool:
        """Serve a connection; False when there are too many."""
        if self._is_closed or self.connections >= self.limits.connections:
            reason = _CLOSING if self._is_closed else f"{self.connections} are open, and more are not allowed"
            with connected, contextlib.suppress(OSError):
                connected.send(framed(last_words(reason), BUFFER_BYTES))
            return False
        self.connections += 1
        task = self.loop.create_task(self._serve(connected))
        self._coming.add(task)
        task.add_done_callback(self._coming.discard)
        return True

    async def _serve(self, connected: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: Connection(self), connected)
        except OSError:
            connected.close()  # it went as it came
            self.connections -= 1

    async def _finish(self) -> None:
        calls = [call for connection in self._connections for call in connection.calls.values()]
        self._end_all()
        tasks = [call.task for call in calls if call.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _end_all(self) -> None:
        self._close_doors()
        self._hands.close()
        if self._next_look is not None:
            self._next_look.cancel()
        for connection in list(self._connections):
            connection.end(_CLOSING)
            if connection.unread:
                connection.abort()  # whoever does not read now will not be waited for

    def _close_doors(self) -> None:
        for door in self._doors:
            door.close()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
