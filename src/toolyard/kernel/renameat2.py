"""renameat2(2) with RENAME_NOREPLACE: move a name only where nothing stands yet, without a race."""

from __future__ import annotations

import errno
import os

from toolyard.kernel.libc import LIBC, checked

_RENAME_NOREPLACE = 1
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL}


def rename_without_replacing(source: str, source_dir: int, target: str, target_dir: int) -> None:
    """Raises FileExistsError when `target` is there already."""
    try:
        checked(
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
