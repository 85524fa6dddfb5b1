"""Locks for the root, for each agent folder and for the run itself, so that one run uses a folder at a time.

Two runs in one folder would take each other's unfinished work for their own. The second one is refused and told which
run is active. The kernel releases the locks when the process ends.
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
    """Holds the locks of a run until `close()`."""

    def __init__(self, state_home: str, folders: Iterable[str], run: str) -> None:
        """Raises SystemFault if another run uses one of the folders."""
        locks_folder = ensure_state_dir(os.path.join(ensure_state_dir(state_home), _LOCKS_FOLDER))
        self._fds: list[int] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for folder in sorted({os.path.realpath(each) for each in folders}):
                self._lock_folder(os.path.join(locks_folder, f"{workspace_id(folder)}.lock"), folder, run)
            undo.pop_all()

    def _lock_folder(self, path: str, folder: str, run: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(fd, _NAME_BYTES, 0).decode("utf-8", "replace").strip() or "another run"
            raise SystemFault(
                f"{other[:1].upper()}{other[1:]} is using {folder}.",
                hint="Wait until it ends, or use other folders for this one (`toolyard.workspace`, `cwd`).",
                retryable=True,
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"run {run} (process {os.getpid()})\n".encode(), 0)

    def lock_run(self, folder: str) -> None:
        """Locks the folder of the run itself: another configuration may resume the same run.

        Raises SystemFault if the run is active.
        """
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._fds.append(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemFault(
                f"Run {os.path.basename(folder)} is already active.", hint="Wait until it ends.", retryable=True
            ) from None

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())
