"""Checks from inside, before any agent code runs, that every mount is where it belongs.

The mounts were made by path. A process with write access to a parent folder may have redirected one with a link.
"""

from __future__ import annotations

import errno
import os

_MOUNT_POINT = 4  # the field of /proc/self/mountinfo
_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\"))


def check_mounts(shown: list[tuple[str, int, int]], hidden: list[str]) -> None:
    """Raises OSError about the first mount that is wrong."""
    points = _mount_points()
    for path, device, inode in shown:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            is_there = os.readlink(f"/proc/self/fd/{fd}") == path
        finally:
            os.close(fd)
        if not is_there or (found.st_dev, found.st_ino) != (device, inode) or os.fsencode(path) not in points:
            raise OSError(errno.ELOOP, "its path contains a symbolic link", path)
    for path in hidden:
        if os.fsencode(path) not in points:
            raise OSError(errno.ELOOP, "it is not covered by a mount", path)


def _mount_points() -> set[bytes]:
    found: set[bytes] = set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            point = line.split()[_MOUNT_POINT]
            for escape, character in _ESCAPES:
                point = point.replace(escape, character)
            found.add(point)
    return found
