"""A listening unix socket in a folder, served on a loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from toolyard.linux.unix_socket import bind_privately

_BACKLOG = 512
_RETRY_SECONDS = 0.5
"""Pause after the process ran out of descriptors: retrying immediately would spin."""


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
