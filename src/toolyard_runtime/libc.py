"""Calls that Python has no function for, through the C module below `ctypes`.

`ctypes` itself takes several milliseconds to import, which every cold start would pay for two or three calls. It is
imported when a call fails: the same call is made again to learn why.
"""

from __future__ import annotations

import _ctypes
import os

_RESOLVE_NOW = 2
_LIBC: int = _ctypes.dlopen(None, _RESOLVE_NOW)  # pyright: ignore[reportArgumentType] - None is the program itself


def call(function: str, *arguments: int | bytes, about: str = "") -> int:
    """What the function returns; OSError about `about` when that is negative. Integers are C ints, bytes pointers."""
    result = call_unchecked(function, *arguments)
    if result < 0:
        number = _errno_of_failed_call(function, arguments)
        raise OSError(number, os.strerror(number), about or function)
    return result


def call_unchecked(function: str, *arguments: int | bytes) -> int:
    """What the function returns, for callers that can go on when it fails."""
    return _ctypes.call_function(_ctypes.dlsym(_LIBC, function), arguments)


def _errno_of_failed_call(function: str, arguments: tuple[int | bytes, ...]) -> int:
    import ctypes

    ctypes.CDLL(None, use_errno=True)[function](*arguments)
    return ctypes.get_errno()
