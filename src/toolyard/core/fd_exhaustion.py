"""Having no file descriptors left: told apart from every other failure, since it looks like many of them."""

from __future__ import annotations

import errno
import os
import resource

from toolyard.core.errors import SystemFault

_LOW_DESCRIPTORS = 6
"""SQLite opens up to four files for one database, and gives those back that it had when one fails."""
_EXHAUSTION_ERRNOS = {errno.EMFILE, errno.ENFILE}
_EMFILE_TEXT = os.strerror(errno.EMFILE)


def fd_exhaustion_fault(error: BaseException) -> SystemFault | None:
    """What to raise in place of `error` where it, or what led to it, is a want of descriptors; else None."""
    at: BaseException | None = error
    while at is not None:
        if _is_fd_exhaustion(at):
            return out_of_descriptors_fault()
        at = at.__cause__ or at.__context__
    return None


def _is_fd_exhaustion(error: BaseException) -> bool:
    if isinstance(error, ImportError):
        return _EMFILE_TEXT in str(error)  # the loader of a shared library says it in words alone
    # `tempfile` looks for another folder then, and says in the end that there is none.
    return isinstance(error, OSError) and (
        error.errno in _EXHAUSTION_ERRNOS or (error.errno == errno.ENOENT and are_descriptors_low())
    )


def mentions_fd_exhaustion(text: str) -> bool:
    """Whether the text of another program's error says that there were none left."""
    return _EMFILE_TEXT in text


def are_descriptors_low() -> bool:
    """Whether this process has hardly any left. For errors that do not say what was missing."""
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        return error.errno in _EXHAUSTION_ERRNOS
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - used < _LOW_DESCRIPTORS


def out_of_descriptors_fault() -> SystemFault:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return SystemFault(
        f"Toolyard has no file descriptors left: this process may open {limit:,} files.",
        hint="Raise the limit before you start it (`ulimit -n 4096`), or do less at the same time.",
        retryable=True,
    )
