"""The way to the broker for processes that may connect to nothing: made before their walls stand, and inherited."""

from __future__ import annotations

import _socket
import os


def connect_at_descriptor(path: str, number: int) -> None:
    """Keep a connection at descriptor `number`, for this process and all it starts.

    Where nobody listens it stays closed: whoever calls a tool then is told.
    """
    there = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
    try:
        # Through a handle: the whole path may be too long for a socket's name.
        there.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        os.dup2(there.fileno(), number, inheritable=True)
    except OSError:
        pass
    finally:
        os.close(folder)
        there.close()
