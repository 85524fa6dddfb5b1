"""Mounts that nobody else sees: this process leaves the mount namespace it was started in.

What it mounts from then on is there for itself and for what it starts. The kernel takes it away with the last of
them, however they end. There is no way back: it is for a process that does one thing.
"""

from __future__ import annotations

import os

from toolyard.linux.libc import LIBC, check_errno

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_BIND, _ALL_BELOW, _SLAVE = 0x1000, 0x4000, 0x8_0000
_DETACH, _NO_FOLLOW = 2, 8


def enter() -> bool:
    """Leave for a mount namespace of our own. OSError where this machine does not let us.

    True: as an ordinary user, in a user namespace of our own, too. The kernel gives that only to a process with one
    thread.
    """
    as_user = False
    try:
        check_errno(LIBC.unshare(_NEW_MOUNTS))
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        check_errno(LIBC.unshare(_NEW_MOUNTS | _NEW_USER))
        _write("setgroups", "deny")  # or an ordinary user may map no group
        _write("uid_map", f"{user} {user} 1")
        _write("gid_map", f"{group} {group} 1")
        as_user = True
    # What the machine mounts is still seen here, and nothing of ours there.
    check_errno(LIBC.mount(None, b"/", None, _ALL_BELOW | _SLAVE, None), "/")
    return as_user


def bind(source: str, target: str) -> None:
    """Show the folder `source` at `target` as well, over what is there."""
    check_errno(LIBC.mount(os.fsencode(source), os.fsencode(target), None, _BIND, None), target)


def unbind(target: str) -> None:
    """Take the topmost mount away from `target`, though somebody may be using it."""
    check_errno(LIBC.umount2(os.fsencode(target), _DETACH | _NO_FOLLOW), target)


def _write(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)
