"""Passes connected sockets to code that may not connect itself (SCM_RIGHTS).

A sandbox without its own namespaces forbids its processes to connect. Its worker connects here before the
restrictions apply, and every process that inherits this control socket requests connections through it: one byte is
one request, and the answer is a byte with a connected socket. The host's end of that socket was never accessible to
the agent, so the agent cannot make it block.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_MAX_REQUESTS_PER_READ = 16
_PASSED, _FULL = b"+", b"-"
MAX_CONTROL_SOCKETS = 256


class FdPasser:
    """Serves control sockets on one loop. Owns the control sockets, not the connections that it passes."""

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
