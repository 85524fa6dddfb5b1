"""Whether every mount is where it belongs, looked at from inside before anything of the agent's runs.

The mounts were made by path. Somebody who could write a folder above one may have led it elsewhere, by a link.
"""

from __future__ import annotations

import errno
import os

_MOUNT_POINT = 4  # the field of /proc/self/mountinfo
_ESCAPES = ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\"))


def check_mounts(shown: list[tuple[str, int, int]], hidden: list[str]) -> None:
    """Raises OSError about the first that is not as it should be."""
    points = _mount_points()
    for path, device, inode in shown:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            is_there = os.readlink(f"/proc/self/fd/{fd}") == path
        finally:
            os.close(fd)
        if not is_there or (found.st_dev, found.st_ino) != (device, inode) or os.fsencode(path) not in points:
            raise OSError(errno.ELOOP, "a link was put in its way", path)
    for path in hidden:
        if os.fsencode(path) not in points:
            raise OSError(errno.ELOOP, "it is not covered", path)


def _mount_points() -> set[bytes]:
    found: set[bytes] = set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            point = line.split()[_MOUNT_POINT]
            for escape, character in _ESCAPES:
                point = point.replace(escape, character)
            found.add(point)
    return found
