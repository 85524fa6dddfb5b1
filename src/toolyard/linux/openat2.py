"""openat2(2): opens a path and lets the kernel confine the lookup beneath a folder.

Linux 5.6 and later. `is_available()` makes a real call, because seccomp filters of older container engines refuse it.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

from toolyard.linux.libc import LIBC

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_SYS_OPENAT2 = 437  # the same number on every architecture


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE = ctypes.sizeof(_OpenHow)


@cache
def _open_how(flags: int, resolve: int) -> _OpenHow:
    # The kernel only reads the structure, so all threads can share one object.
    return _OpenHow(flags | os.O_CLOEXEC, 0, resolve)


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Opens `path` relative to `dir_fd`. A lookup that `resolve` forbids raises OSError (EXDEV, ELOOP)."""
    how = _open_how(flags, resolve)
    fd: int = LIBC.syscall(_SYS_OPENAT2, dir_fd, os.fsencode(path), ctypes.byref(how), _SIZE)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


@cache
def is_available() -> bool:
    """Whether the kernel has openat2 and no filter refuses it."""
    try:
        fd = os.open("/", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        os.close(openat2(fd, ".", os.O_PATH, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS))
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG}:
            return False
        raise
    finally:
        os.close(fd)
    return True
