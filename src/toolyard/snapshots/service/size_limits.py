"""The limits of automatic snapshots: the size of a workspace, and the disk space that its snapshots use.

An agent that writes and deletes endlessly would otherwise fill the disk with deleted files for as long as snapshots
are kept. Nothing is deleted to make room: that would let an agent erase the record of what it did.
"""

from __future__ import annotations

import contextlib
import os
import time

from toolyard.core.errors import SystemFault, ToolError
from toolyard.core.limits import MIB

_SHARE = 0.02
_MOST_RESERVED = 512 * MIB
_LOOK_SECONDS = 0.2
_HINT = "Let old snapshots go: toolyard snapshot gc --keep 20 --older-than 1d"


class DiskQuota:
    """The limits of a store's size and of the free space on its disk. For one thread."""

    def __init__(self, folder: str, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._next_check = float("-inf")

    def check(self) -> None:
        """Raises SystemFault when a limit is reached. Cheap: it checks a few times a second."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _LOOK_SECONDS
        with contextlib.suppress(OSError):  # the writer of the store reports such errors
            stored = _stored_bytes(self._folder)
            if stored > self._max_bytes:
                most = f"`snapshots.most_stored` is {self._max_bytes:,}"
                raise SystemFault(f"The snapshots in {self._folder} take {stored:,} bytes; {most}.", hint=_HINT)
            disk = os.statvfs(self._folder)
            free, reserved = (
                disk.f_bavail * disk.f_frsize,
                min(disk.f_blocks * disk.f_frsize * _SHARE, _MOST_RESERVED),
            )
            if free < reserved:
                raise SystemFault(
                    f"The disk of {self._folder} is nearly full: {free:,} bytes are left.",
                    hint=f"Free some space. {_HINT}",
                )


class WorkspaceTooLarge(ToolError):  # noqa: N818 - a fact about the workspace
    """The workspace exceeds the configured limits for automatic snapshots."""


class SizeLimit:
    """Counts the files and bytes of a walk, and raises when there are too many."""

    def __init__(self, files: int, size: int) -> None:
        self._files, self._size = files, size
        self._left = (files, size)

    def add_folder(self, files: int, size: int) -> None:
        """Counts the entries of one folder. Raises WorkspaceTooLarge."""
        self._left = (self._left[0] - files, self._left[1] - size)
        if self._left[0] < 0:
            raise WorkspaceTooLarge(
                f"the workspace has more than {self._files:,} files and folders (`snapshots.most_files`)"
            )
        if self._left[1] < 0:
            raise WorkspaceTooLarge(f"the workspace has more than {self._size:,} bytes (`snapshots.most_bytes`)")


def _stored_bytes(folder: str) -> int:
    from toolyard.snapshots.store.layout import packs_folder  # with the first snapshot, not with the first message

    with os.scandir(packs_folder(folder)) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
