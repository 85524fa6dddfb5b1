"""renameat2(2): renames without replacing an existing target, or exchanges two names, without a race."""

from __future__ import annotations

import errno
import os

from toolyard.linux.libc import LIBC, check_errno

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL}


def rename_without_replacing(source: str, source_dir: int, target: str, target_dir: int) -> None:
    """Renames `source` to `target`. Raises FileExistsError if `target` exists."""
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
    # The file system lacks the flag. link(2) never replaces, and rename(2) replaces a folder only if it is empty.
    try:
        os.link(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)
    except (PermissionError, IsADirectoryError):
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
    else:
        os.unlink(source, dir_fd=source_dir)


def exchange(one: str, other: str, folder: int, other_folder: int | None = None) -> None:
    """Exchanges two names in one folder, or in two. Raises OSError, also if the file system does not support it."""
    there = folder if other_folder is None else other_folder
    check_errno(LIBC.renameat2(folder, os.fsencode(one), there, os.fsencode(other), _RENAME_EXCHANGE), other)
