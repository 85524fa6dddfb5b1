"""Whether a socket or a named pipe in a folder that is shown inside would lead to a program of the host.

Neither cares whether its mount is read-only: who sees it may connect to it, or write into it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat

_NO_LISTENER_ERRORS = frozenset({errno.ECONNREFUSED, errno.ENOENT})


def reaches_host_program(path: str, *, writable: bool) -> bool:
    """Of sockets only those that somebody listens on: one that was left behind may be removed and made anew inside.

    Pipes where nothing else can be written. Where commands may write they make pipes of their own.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISFIFO(mode):
        return not writable
    return stat.S_ISSOCK(mode) and _has_listener(path)


def _has_listener(path: str) -> bool:
    """Asked for with the wrong type, which the kernel answers by itself: the program is not disturbed."""
    folder, name = os.path.split(path)
    try:
        handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.connect(f"/proc/self/fd/{handle}/{name}")  # the whole path may be too long for a socket's name
    except OSError as error:
        return error.errno not in _NO_LISTENER_ERRORS
    finally:
        os.close(handle)
    return True
