"""Unix sockets by path: paths of any length, and sockets that only their owner can connect to."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator

_OWNER_ONLY = 0o600


@contextlib.contextmanager
def short_name(path: str) -> Generator[str]:
    """Yields a short alias of `path` for the block: the kernel limits a socket's name to 107 bytes."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def bind_privately(unbound: socket.socket, path: str) -> None:
    """Binds the socket at `path` so that only its owner can connect, whatever the umask. Call `listen` afterwards."""
    with short_name(path) as name:
        unbound.bind(name)
        os.chmod(name, _OWNER_ONLY)
