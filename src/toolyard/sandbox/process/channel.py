"""The byte stream between host and supervisor: a socket on one machine, else the pipes of a client program.

`receive` returns b"" once the other side is gone. `shut_down` may be called from any thread and ends a blocked
`receive`: immediately for a socket, once the program has exited for pipes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from typing import IO, Protocol

from toolyard.core.errors import SystemFault

_CHUNK = 1 << 18


class Channel(Protocol):
    """A byte stream to a supervisor."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes: ...

    def shut_down(self) -> None: ...

    def close(self) -> None: ...


class SocketChannel:
    """A channel over one end of a socket pair."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK)
        except OSError:
            return b""

    def shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class PipeChannel:
    """A channel over the standard input and output of a client program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._stdin, self._stdout = _require_pipe(process.stdin), _require_pipe(process.stdout)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdin.fileno(), view) :]

    def receive(self) -> bytes:
        try:
            return os.read(self._stdout.fileno(), _CHUNK)
        except (OSError, ValueError):
            return b""

    def shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        self.shut_down()
        self._stdout.close()


def _require_pipe(end: IO[bytes] | None) -> IO[bytes]:
    if end is None:
        raise SystemFault("The sandbox was started without pipes.", hint="Report this as a bug.")
    return end
