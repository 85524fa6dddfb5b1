"""Detects that the process has run out of file descriptors, which surfaces as many different errors."""

from __future__ import annotations

import errno
import os
import resource

from toolyard.core.errors import SystemFault

_LOW_DESCRIPTORS = 6
"""SQLite opens up to four files for one database, and closes those it has when one fails."""
_EXHAUSTION_ERRNOS = {errno.EMFILE, errno.ENFILE}
_EMFILE_TEXT = os.strerror(errno.EMFILE)


def fd_exhaustion_fault(error: BaseException) -> SystemFault | None:
    """Returns the fault to raise in place of `error` if it, or its cause, is a lack of
    descriptors; otherwise None.
    """
    at: BaseException | None = error
    while at is not None:
        if _is_fd_exhaustion(at):
            return out_of_descriptors_fault()
        at = at.__cause__ or at.__context__
    return None


def _is_fd_exhaustion(error: BaseException) -> bool:
    if isinstance(error, ImportError):
        return _EMFILE_TEXT in str(error)  # the dynamic loader reports it only as text
    # `tempfile` then tries other folders, and finally reports that none is usable.
    return isinstance(error, OSError) and (
        error.errno in _EXHAUSTION_ERRNOS or (error.errno == errno.ENOENT and are_descriptors_low())
    )


def mentions_fd_exhaustion(text: str) -> bool:
    """Whether another program's error text says that it ran out of descriptors."""
    return _EMFILE_TEXT in text


def are_descriptors_low() -> bool:
    """Whether this process has almost no descriptors left. For errors that do not name the missing resource."""
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        return error.errno in _EXHAUSTION_ERRNOS
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - used < _LOW_DESCRIPTORS


def out_of_descriptors_fault() -> SystemFault:
    """Returns the fault that reports the limit and how to raise it."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return SystemFault(
        f"Toolyard has no file descriptors left: this process may open {limit:,} files.",
        hint="Raise the limit before you start it (`ulimit -n 4096`), or do less at the same time.",
        retryable=True,
    )
