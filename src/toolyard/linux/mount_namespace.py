"""Private mounts: moves this process into a mount namespace of its own.

Later mounts are visible only to this process and the processes it starts. The kernel removes them with the last of
these processes. The process cannot return to its old namespace, so this is for processes with a single task.
"""

from __future__ import annotations

import os

from toolyard.linux.libc import LIBC, check_errno

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_BIND, _ALL_BELOW, _SLAVE = 0x1000, 0x4000, 0x8_0000
_DETACH, _NO_FOLLOW = 2, 8


def enter() -> bool:
    """Moves this process into a new mount namespace. Raises OSError if the machine does not allow it.

    Returns True if that also took a new user namespace, as for an ordinary user. The kernel allows that only to a
    process with a single thread.
    """
    as_user = False
    try:
        check_errno(LIBC.unshare(_NEW_MOUNTS))
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        check_errno(LIBC.unshare(_NEW_MOUNTS | _NEW_USER))
        _write("setgroups", "deny")  # without this an ordinary user may not map a group
        _write("uid_map", f"{user} {user} 1")
        _write("gid_map", f"{group} {group} 1")
        as_user = True
    # Mounts of the machine still propagate here; ours do not propagate back.
    check_errno(LIBC.mount(None, b"/", None, _ALL_BELOW | _SLAVE, None), "/")
    return as_user


def bind(source: str, target: str) -> None:
    """Mounts the folder `source` at `target` as well, on top of its content."""
    check_errno(LIBC.mount(os.fsencode(source), os.fsencode(target), None, _BIND, None), target)


def unbind(target: str) -> None:
    """Detaches the topmost mount from `target`, even if it is in use."""
    check_errno(LIBC.umount2(os.fsencode(target), _DETACH | _NO_FOLLOW), target)


def _write(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)
