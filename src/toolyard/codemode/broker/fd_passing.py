"""Connections for code that may make none: each is made here and handed over through one that is there already.

A sandbox without namespaces of its own forbids its processes to connect to anything. Their worker connects here
before its walls stand, and every process that inherits the descriptor asks through it: one byte is one request, and
the answer is a byte with a connected socket. This end of that socket never was in the agent's hands, so that nobody
can make it block.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_MAX_REQUESTS_PER_READ = 16
_PASSED, _FULL = b"+", b"-"
MAX_CONTROL_SOCKETS = 256


class FdPasser:
    """On one loop. Owns the connections that are asked through, not those it handed over."""

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
            asked = control.recv(_MAX_REQUESTS_PER_READ)
            if not asked:
                self._close_socket(control)
                return
            for _ in asked:
                self._pass_connection(control)
        except (BlockingIOError, InterruptedError):
            # To read: nothing was there. To write: it asks and takes nothing, and then it gets nothing more.
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
