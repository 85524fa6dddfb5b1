"""The C library, with errno saved per thread."""

from __future__ import annotations

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)


def check_errno(result: int, path: str = "") -> int:
    """Returns `result`. Raises the OSError for errno if the call failed (a negative result)."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
