"""Temporary folders of our own, and what becomes of those whose owner was killed.

They lie in the user's state folder, folders for sockets in $XDG_RUNTIME_DIR where there is one (see
`private_folders.py`), never in the system's temporary folder: other programs, and agents, can be given that one.

A `TemporaryFolder` belongs to whoever made it and goes with `close()`. Until then its owner holds a lock on it, which
the kernel takes back when the owner dies, however that happens. The first of a kind that a process makes removes the
folders of that kind that nobody holds any more: only the same user's, and no young ones, whose owner may be about to
take the lock.
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
    def __init__(self, kind: str, parent: str = "") -> None:
        """Made in `run_folder()`, or in another folder that is private to the user. Raises OSError, SystemFault."""
        parent = parent or run_folder()
        _sweep_once(kind, parent)
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_prefix(kind), dir=parent))
        self._lock_fd = _open(self.path)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def lock_fd(self) -> int:
        """The descriptor with the lock. A process that is handed it keeps the folder from being swept as well."""
        return self._lock_fd

    def close(self) -> None:
        if self._lock_fd < 0:
            return
        scratch.remove(self.path)
        held, self._lock_fd = self._lock_fd, -1
        os.close(held)


def sweep(kind: str, parent: str) -> None:
    """Remove the folders of this kind that nobody holds."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix(kind)):
                with contextlib.suppress(OSError):  # held, or gone: somebody else swept it
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
