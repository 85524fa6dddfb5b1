"""Unix sockets by path: paths of any length, and sockets that only their owner can connect to."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator

_OWNER_ONLY = 0o600


@contextlib.contextmanager
def short_name(path: str) -> Generator[str]:
    """Another name of `path` while the block runs: the kernel takes at most 107 bytes as the name of a socket."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def bind_privately(unbound: socket.socket, path: str) -> None:
    """Bind it at `path`, for its owner alone whatever the umask is. Call `listen` afterwards."""
    with short_name(path) as name:
        unbound.bind(name)
        os.chmod(name, _OWNER_ONLY)
