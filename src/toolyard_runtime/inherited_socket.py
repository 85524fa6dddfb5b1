"""The inherited connection to the broker, for processes that may not connect once they are restricted."""

from __future__ import annotations

import _socket
import os


def connect_at_descriptor(path: str, number: int) -> None:
    """Connects to `path` and keeps the connection at descriptor `number`, for this process and all that it starts.

    If the broker does not listen, the descriptor stays closed, and tool calls report that.
    """
    there = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
    try:
        # Through a folder handle, because the full path may be too long for a socket address.
        there.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        os.dup2(there.fileno(), number, inheritable=True)
    except OSError:
        pass
    finally:
        os.close(folder)
        there.close()
