"""C functions that Python does not expose, called through the C module below `ctypes`.

`ctypes` itself takes several milliseconds to import, which every cold start would pay for two or three calls. It is
imported only when a call fails: the same call is then repeated to learn the errno.
"""

from __future__ import annotations

import _ctypes
import os

_RESOLVE_NOW = 2
_LIBC: int = _ctypes.dlopen(None, _RESOLVE_NOW)  # pyright: ignore[reportArgumentType] - None is the program itself


def call(function: str, *arguments: int | bytes, about: str = "") -> int:
    """Calls a C function. Raises OSError about `about` if the result is negative. Ints are C ints, bytes pointers."""
    result = call_unchecked(function, *arguments)
    if result < 0:
        number = _errno_of_failed_call(function, arguments)
        raise OSError(number, os.strerror(number), about or function)
    return result


def call_unchecked(function: str, *arguments: int | bytes) -> int:
    """Calls a C function and returns its result, for callers that can continue if it fails."""
    return _ctypes.call_function(_ctypes.dlsym(_LIBC, function), arguments)


def _errno_of_failed_call(function: str, arguments: tuple[int | bytes, ...]) -> int:
    import ctypes

    ctypes.CDLL(None, use_errno=True)[function](*arguments)
    return ctypes.get_errno()
