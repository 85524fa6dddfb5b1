"""The C library, with errno kept per thread."""

from __future__ import annotations

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)


def check_errno(result: int, path: str = "") -> int:
    """`result`, or the OSError that errno names when the call failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
