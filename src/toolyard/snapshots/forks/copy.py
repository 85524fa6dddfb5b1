"""Makes a fork without an overlay: copies the tree, with reflinks where the file system can share blocks."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable

from toolyard.core.limits import MIB

_FICLONE = 0x40049409
_PIECE = 8 * MIB
_WORKING_MODE = 0o700
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_tree(source: str, target: str, check: Callable[[], None]) -> bool:
    """Copies a base tree to `target`, which must not exist. Returns whether the files share their blocks.

    No other process knows either folder yet, so working with paths is safe here.
    """
    waiting = [(source, target)]
    modes: list[tuple[str, int]] = []
    shared = True
    while waiting:
        check()
        old, new = waiting.pop()
        os.mkdir(new, _WORKING_MODE)
        modes.append((new, stat.S_IMODE(os.stat(old).st_mode)))
        with os.scandir(old) as entries:
            for entry in entries:
                place = os.path.join(new, entry.name)
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), place)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, place))
                else:
                    shared = _copy_file(entry.path, place, clone=shared)
    for folder, mode in reversed(modes):
        os.chmod(folder, mode)
    return shared


def _copy_file(source: str, target: str, *, clone: bool) -> bool:
    old = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(old)
        new = os.open(target, _NEW, 0o600)
        try:
            cloned = clone and _clone(old, new)
            if not cloned:
                _copy_data(old, new, status.st_size)
            os.fchmod(new, stat.S_IMODE(status.st_mode))
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(new)
    finally:
        os.close(old)
    return cloned


def _clone(old: int, new: int) -> bool:
    try:
        fcntl.ioctl(new, _FICLONE, old)
    except OSError:
        return False
    return True


def _copy_data(old: int, new: int, size: int) -> None:
    """Copies the bytes of a file; holes of large files stay holes."""
    if size <= _PIECE:
        os.write(new, os.read(old, size))
        return
    os.ftruncate(new, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
            end = os.lseek(old, at, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole to the end
                return
            raise
        while at < end:
            data = os.pread(old, min(_PIECE, end - at), at)
            if not data:
                return
            os.pwrite(new, data, at)
            at += len(data)
