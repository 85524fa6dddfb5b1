"""One run at a time in a folder: a lock for the root, for each folder that agents work in, and for the run itself.

Two runs in one folder would read each other's half-done work as their own. The second is refused, and told which run
is there. The kernel gives the locks back when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.ids import workspace_id
from toolyard.storage.state_folder import ensure_state_dir

_LOCKS_FOLDER = "at-work"
_NAME_BYTES = 100


class RunLocks(Closeable):
    def __init__(self, state_home: str, folders: Iterable[str], run: str) -> None:
        """Raises SystemFault where another run has one of the folders."""
        place = ensure_state_dir(os.path.join(ensure_state_dir(state_home), _LOCKS_FOLDER))
        self._fds: list[int] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for folder in sorted({os.path.realpath(each) for each in folders}):
                self._lock_folder(os.path.join(place, f"{workspace_id(folder)}.lock"), folder, run)
            undo.pop_all()

    def _lock_folder(self, path: str, folder: str, run: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(fd, _NAME_BYTES, 0).decode("utf-8", "replace").strip() or "another run"
            raise SystemFault(
                f"{other[:1].upper()}{other[1:]} is at work in {folder}.",
                hint="Wait until it is over, or give this one folders of its own (`toolyard.workspace`, `cwd`).",
                retryable=True,
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"run {run} (process {os.getpid()})\n".encode(), 0)

    def lock_run(self, folder: str) -> None:
        """The folder of the run itself, by its own lock: another configuration may name the same run.

        Raises SystemFault where somebody is at it.
        """
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemFault(
                f"Run {os.path.basename(folder)} is going on already.", hint="Wait until it is over.", retryable=True
            ) from None

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
