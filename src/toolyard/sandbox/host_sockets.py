"""Detects sockets and named pipes in mounted folders that would lead to a program of the host.

A read-only mount does not protect them: a process that sees one can connect to it, or write into it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat

_NO_LISTENER_ERRORS = frozenset({errno.ECONNREFUSED, errno.ENOENT})


def reaches_host_program(path: str, *, writable: bool) -> bool:
    """Whether the socket or pipe at `path` would connect code inside with a program of the host.

    Sockets count if a program listens on them; a stale one may be removed and created again inside. Pipes count in
    read-only folders; in writable ones commands create pipes of their own.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISFIFO(mode):
        return not writable
    return stat.S_ISSOCK(mode) and _has_listener(path)


def _has_listener(path: str) -> bool:
    """Whether a program listens on the socket. Connects with the wrong type, so only the kernel answers."""
    folder, name = os.path.split(path)
    try:
        handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.connect(f"/proc/self/fd/{handle}/{name}")  # the full path may be too long for a socket address
    except OSError as error:
        return error.errno not in _NO_LISTENER_ERRORS
    finally:
        os.close(handle)
    return True
