"""statx(2), for the birth time of a file, which Python's stat lacks on Linux."""

from __future__ import annotations

import ctypes
import struct

from toolyard.linux.libc import LIBC

_AT_EMPTY_PATH = 0x1000
_STATX_BTIME = 0x800
_SIZE = 256
_MASK_AT, _BTIME_AT = 0, 80  # offsets in struct statx
_NANOSECOND = 1e-9


def birth_time(fd: int) -> float | None:
    """Returns when the open file was created, in seconds since 1970; None if that is unknown."""
    buffer = ctypes.create_string_buffer(_SIZE)
    try:
        failed = LIBC.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer)
    except AttributeError:  # a C library older than the call
        return None
    (mask,) = struct.unpack_from("=I", buffer, _MASK_AT)
    if failed or not mask & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_AT)
    return seconds + nanoseconds * _NANOSECOND
