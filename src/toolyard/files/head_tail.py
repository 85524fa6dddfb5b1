"""Reads the beginning or the end of a file that is too large to read whole."""

from __future__ import annotations

import os

from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain


def read_beginning(target: Target, size: int) -> bytes:
    """Returns at most `size` bytes from the start."""
    return _read(target, size, at_end=False)


def read_end(target: Target, size: int) -> bytes:
    """Returns at most `size` bytes up to the current end of the file."""
    return _read(target, size, at_end=True)


def _read(target: Target, size: int, *, at_end: bool) -> bytes:
    try:
        fd = target.handle.reopen_fd(os.O_RDONLY)
        try:
            start = max(0, os.fstat(fd).st_size - size) if at_end else 0
            return os.pread(fd, size, start)
        finally:
            os.close(fd)
    except OSError as error:
        raise explain(error, target.path) from error
