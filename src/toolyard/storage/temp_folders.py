"""Toolyard's temporary folders, and the cleanup of those whose owner was killed.

They lie in the user's state folder, folders for sockets in $XDG_RUNTIME_DIR if there is one (see
`private_folders.py`), never in the system's temporary folder: other programs, and agents, can be given access to
that.

The creator of a `TemporaryFolder` owns it; `close()` deletes it. Until then the owner holds a lock on it, which the
kernel releases when the owner dies, however that happens. The first folder of a kind that a process creates triggers
a cleanup of unlocked folders of that kind: only the same user's, and no recent ones, whose owner may not have the
lock yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from functools import cache

from toolyard.core.closeable import Closeable
from toolyard.storage.private_folders import run_folder
from toolyard_runtime import scratch

_YOUNG_SECONDS = 60.0


class TemporaryFolder(Closeable):
    """A temporary folder that is deleted on `close()`."""

    def __init__(self, kind: str, parent: str = "") -> None:
        """Creates it in `run_folder()` or another private folder of the user. Raises OSError, SystemFault."""
        parent = parent or run_folder()
        _sweep_once(kind, parent)
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_prefix(kind), dir=parent))
        self._lock_fd = _open(self.path)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def lock_fd(self) -> int:
        """Returns the descriptor with the lock. A process that inherits it also protects the folder from cleanup."""
        return self._lock_fd

    def close(self) -> None:
        if self._lock_fd < 0:
            return
        scratch.remove(self.path)
        lock_fd, self._lock_fd = self._lock_fd, -1
        os.close(lock_fd)


def sweep(kind: str, parent: str) -> None:
    """Removes the unlocked folders of this kind."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix(kind)):
                with contextlib.suppress(OSError):  # locked, or already removed by another process
                    _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    fd = _open(path)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
            return
        if time.time() - status.st_mtime < _YOUNG_SECONDS:
            return
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        scratch.remove(path)
    finally:
        os.close(fd)


@cache
def _sweep_once(kind: str, parent: str) -> None:
    sweep(kind, parent)


def _prefix(kind: str) -> str:
    return f"toolyard-{kind}-"


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
