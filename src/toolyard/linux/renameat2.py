"""renameat2(2): move a name only where nothing stands yet, or exchange two names, without a race."""

from __future__ import annotations

import errno
import os

from toolyard.linux.libc import LIBC, check_errno

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL}


def rename_without_replacing(source: str, source_dir: int, target: str, target_dir: int) -> None:
    """Raises FileExistsError when `target` is there already."""
    try:
        check_errno(
            LIBC.renameat2(source_dir, os.fsencode(source), target_dir, os.fsencode(target), _RENAME_NOREPLACE),
            target,
        )
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    else:
        return
    # A file system without the flag: a hard link refuses to replace, and folders cannot be replaced unless empty.
    try:
        os.link(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)
    except (PermissionError, IsADirectoryError):
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
    else:
        os.unlink(source, dir_fd=source_dir)


def exchange(one: str, other: str, folder: int, other_folder: int | None = None) -> None:
    """Let two names of a folder, or of two folders, change places. OSError also where the file system cannot."""
    there = folder if other_folder is None else other_folder
    check_errno(LIBC.renameat2(folder, os.fsencode(one), there, os.fsencode(other), _RENAME_EXCHANGE), other)
