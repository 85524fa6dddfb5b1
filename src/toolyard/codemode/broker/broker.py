"""The broker of one agent: a unix socket in a private folder, served on a given loop.

Any process that can open the socket acts as the agent: its folder is mounted in that agent's sandbox and in no other.
`Broker` owns its two sockets, every connection and every call. `close()` may be called repeatedly and from any
thread; it ends all of them and removes the sockets (and the folder, if `open` created it). The caller owns the loop.
A new broker on the same folder replaces one that was closed or killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from toolyard.codemode.broker.connection import AdmissionControl, BrokerConnection, closing_frame, encode_frame
from toolyard.codemode.broker.requests import (
    DEFAULT_BROKER_LIMITS,
    BrokerLimits,
    CanRunEagerly,
    RequestHandler,
    never_eager,
)
from toolyard.core.closeable import Closeable
from toolyard.core.limits import KIB
from toolyard.linux.unix_socket import bind_privately
from toolyard.sandbox.guest_layout import BROKER_FD_SOCKET, BROKER_SOCKET
from toolyard.storage.private_folders import socket_folder
from toolyard.storage.temp_folders import TemporaryFolder

BUFFER_BYTES = 256 * KIB
"""The size of one read."""
_BACKLOG = 512
_RETRY_SECONDS = 0.5
"""Pause after the process ran out of descriptors: retrying immediately would spin."""
_MAX_REQUESTS_PER_READ = 16
_PASSED, _FULL = b"+", b"-"
MAX_CONTROL_SOCKETS = 256
_CLOSE_SECONDS = 5.0
"""How long `close()` waits for cancelled calls to clean up."""
_CHECKS_PER_STALL = 4
_MAX_CHECK_INTERVAL = 1.0
_CLOSING_REASON = "the broker is closing"


class Broker(Closeable):
    """Serves the tool calls of one agent's sandboxed code."""

    def __init__(
        self,
        folder: str,
        agent: str,
        handler: RequestHandler,
        loop: asyncio.AbstractEventLoop,
        limits: BrokerLimits = DEFAULT_BROKER_LIMITS,
        *,
        can_run_eagerly: CanRunEagerly = never_eager,
    ) -> None:
        """`folder` must exist and be private to the user. `loop` need not run yet."""
        self.folder = os.path.realpath(folder)
        self.agent, self.handler, self.loop, self.limits = agent, handler, loop, limits
        self.can_run_eagerly = can_run_eagerly
        self.admission = AdmissionControl(limits)
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self._own_folder: TemporaryFolder | None = None
        self._is_closed = False
        self._connections: set[BrokerConnection] = set()
        self._accepting: set[asyncio.Task[None]] = set()
        self.connection_count = 0
        """Connections that are open or being accepted."""
        self._stall_watch: set[BrokerConnection] = set()
        self._stall_timer: asyncio.TimerHandle | None = None
        self._fd_passer = FdPasser(loop, self._adopt_connection)
        self._listeners = [UnixListener(self.folder, BROKER_SOCKET, self._adopt_connection)]
        try:
            self._listeners.append(UnixListener(self.folder, BROKER_FD_SOCKET, self._fd_passer.add))
        except BaseException:
            self._listeners[0].close()
            raise
        for door in self._listeners:
            loop.call_soon_threadsafe(door.start_on, loop)

    @classmethod
    def open(
        cls,
        agent: str,
        handler: RequestHandler,
        loop: asyncio.AbstractEventLoop,
        limits: BrokerLimits = DEFAULT_BROKER_LIMITS,
        *,
        can_run_eagerly: CanRunEagerly = never_eager,
    ) -> Broker:
        """Creates a broker in a new temporary folder, which is removed with it."""
        with contextlib.ExitStack() as undo:
            owned = undo.enter_context(TemporaryFolder("broker", socket_folder()))
            broker = cls(owned.path, agent, handler, loop, limits, can_run_eagerly=can_run_eagerly)
            broker._own_folder = owned
            undo.pop_all()
        return broker

    @property
    def socket_path(self) -> str:
        """The path of the socket for code that runs on the host, outside of any sandbox."""
        return f"{self.folder}/{BROKER_SOCKET}"

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return sum(len(connection.calls) for connection in self._connections)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self.loop.is_running():
            self._close_listeners()
        elif _is_running_loop(self.loop):
            self._close_connections()
        else:
            with contextlib.suppress(TimeoutError, RuntimeError):  # the loop may end first
                asyncio.run_coroutine_threadsafe(self._close_connections_and_wait(), self.loop).result(_CLOSE_SECONDS)
            self._close_listeners()
        if self._own_folder is not None:
            self._own_folder.close()

    # Called by connections

    def on_connected(self, connection: BrokerConnection) -> None:
        self._connections.add(connection)
        if self._is_closed:
            connection.close_with_reason(_CLOSING_REASON)

    def on_disconnected(self, connection: BrokerConnection) -> None:
        self.connection_count -= 1
        self._connections.discard(connection)
        self._stall_watch.discard(connection)

    def watch_for_stall(self, connection: BrokerConnection) -> None:
        self._stall_watch.add(connection)
        if self._stall_timer is None:
            between = min(self.limits.stall_seconds / _CHECKS_PER_STALL, _MAX_CHECK_INTERVAL)
            self._stall_timer = self.loop.call_later(between, self._check_stalls)

    def pending_bytes(self) -> int:
        return sum(connection.pending_bytes for connection in self._connections)

    # On the loop

    def _check_stalls(self) -> None:
        self._stall_timer = None
        watched, self._stall_watch = self._stall_watch, set()
        for connection in watched:
            if connection.check_stall():
                self.watch_for_stall(connection)

    def _adopt_connection(self, connected: socket.socket) -> bool:
        """Serves a connection. Returns False if the limit is reached."""
        if self._is_closed or self.connection_count >= self.limits.connections:
            reason = (
                _CLOSING_REASON if self._is_closed else f"{self.connection_count} are open, and more are not allowed"
            )
            with connected, contextlib.suppress(OSError):
                connected.send(encode_frame(closing_frame(reason), BUFFER_BYTES))
            return False
        self.connection_count += 1
        task = self.loop.create_task(self._serve_connection(connected))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)
        return True

    async def _serve_connection(self, connected: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: BrokerConnection(self), connected)
        except OSError:
            connected.close()  # the peer has already disconnected
            self.connection_count -= 1

    async def _close_connections_and_wait(self) -> None:
        calls = [call for connection in self._connections for call in connection.calls.values()]
        self._close_connections()
        tasks = [call.task for call in calls if call.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _close_connections(self) -> None:
        self._close_listeners()
        self._fd_passer.close()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for connection in list(self._connections):
            connection.close_with_reason(_CLOSING_REASON)
            if connection.pending_bytes:
                connection.abort()  # a peer that does not read is not waited for

    def _close_listeners(self) -> None:
        for door in self._listeners:
            door.close()


class UnixListener:
    """Passes each connection to `on_connection`, without blocking. Owns the socket and its file until `close()`."""

    def __init__(self, folder: str, name: str, on_connection: Callable[[socket.socket], object]) -> None:
        self._path = f"{folder}/{name}"
        self._on_connection = on_connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)  # left by a killed process
            bind_privately(self._socket, self._path)
            self._socket.listen(_BACKLOG)
            self._inode = os.stat(self._path).st_ino
        except BaseException:
            self._socket.close()
            raise

    def start_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts accepting. Call it on the loop's own thread."""
        if self._socket.fileno() >= 0:
            self._loop = loop
            loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Closes the socket and removes its file. Call it on the loop's own thread, if the loop still runs."""
        if self._socket.fileno() < 0:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:  # another broker may own the name by now
                os.unlink(self._path)

    def _accept(self) -> None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._pause_accepting()
            return
        accepted.settimeout(0)
        self._on_connection(accepted)

    def _pause_accepting(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(_RETRY_SECONDS, self.start_on, self._loop)


class FdPasser:
    """Passes connected sockets to code that may not connect itself (SCM_RIGHTS).

    A sandbox without its own namespaces forbids its processes to connect. Its worker connects here before the
    restrictions apply, and every process that inherits this control socket requests connections through it: one byte
    is one request, and the answer is a byte with a connected socket. The host's end of that socket was never
    accessible to the agent, so the agent cannot make it block. Owns the control sockets, not the connections.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[socket.socket], bool]) -> None:
        self._loop = loop
        self._adopt = adopt
        self._sockets: set[socket.socket] = set()

    def add(self, control: socket.socket) -> None:
        if len(self._sockets) >= MAX_CONTROL_SOCKETS:
            control.close()
            return
        self._sockets.add(control)
        self._loop.add_reader(control.fileno(), self._on_request, control)

    def close(self) -> None:
        for hand in list(self._sockets):
            self._close_socket(hand)

    def _close_socket(self, control: socket.socket) -> None:
        self._sockets.discard(control)
        self._loop.remove_reader(control.fileno())
        control.close()

    def _on_request(self, control: socket.socket) -> None:
        try:
            requests = control.recv(_MAX_REQUESTS_PER_READ)
            if not requests:
                self._close_socket(control)
                return
            for _ in requests:
                self._pass_connection(control)
        except (BlockingIOError, InterruptedError):
            # Reading: no data. Writing: the peer requests sockets without receiving them, and gets no more.
            return
        except OSError:
            self._close_socket(control)

    def _pass_connection(self, control: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.settimeout(0)
            if not self._adopt(ours):
                control.send(_FULL)
                return
            socket.send_fds(control, [_PASSED], [theirs.fileno()])


def _is_running_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
