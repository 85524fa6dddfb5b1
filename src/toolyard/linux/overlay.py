"""Mounts and unmounts overlays with mount(2).

Layers are passed as open folders: mount options are separated by commas and layers by colons, and a path may contain
both.
"""

from __future__ import annotations

import errno
import os

from toolyard.linux.libc import LIBC, check_errno

_NO_SUID, _NO_DEVICES = 2, 4
_DETACH, _NO_FOLLOW = 2, 8
_NOT_MOUNTED = {errno.EINVAL, errno.ENOENT}
_MOST_STACKED = 16
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def mount_overlay(lower: str, upper: str, work: str, target: str, *, as_user: bool) -> None:
    """Mounts `lower` at `target` with changes going to `upper`. Raises OSError.

    `as_user` keeps overlay metadata in attributes that an ordinary user may write, as user namespaces require.
    """
    layers: dict[str, int] = {}
    try:
        for name, path in (("lowerdir", lower), ("upperdir", upper), ("workdir", work)):
            layers[name] = os.open(path, _FOLDER)
        given = [f"{name}=/proc/self/fd/{fd}" for name, fd in layers.items()]
        # Without redirects a renamed folder is copied, so the upper layer alone shows every change.
        given.append("userxattr" if as_user else "redirect_dir=off")
        options = ",".join(given).encode()
        where = os.fsencode(target)
        check_errno(LIBC.mount(b"overlay", where, b"overlay", _NO_SUID | _NO_DEVICES, options), target)
    finally:
        for fd in layers.values():
            os.close(fd)


def unmount(target: str) -> None:
    """Detaches every mount at `target`, even if it is in use. Raises OSError if that is not permitted."""
    for _ in range(_MOST_STACKED):
        try:
            check_errno(LIBC.umount2(os.fsencode(target), _DETACH | _NO_FOLLOW), target)
        except OSError as error:
            if error.errno in _NOT_MOUNTED:
                return
            raise


def sync_file_system(fd: int) -> None:
    """Flushes the file system of an open file to disk."""
    check_errno(LIBC.syncfs(fd))
