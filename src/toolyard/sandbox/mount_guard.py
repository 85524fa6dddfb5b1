"""Which files something is mounted over. The kernel takes a mount off a name that is given to another file.

Editors and git replace files by renaming a new one over them, and what was hidden or read-only inside is then open.
So it is looked at while runs are under way, and a sandbox that lost a cover is ended.
"""

from __future__ import annotations

import errno
import os

from toolyard.core.errors import SystemFault
from toolyard.linux import openat2
from toolyard.sandbox.spec import Mount, SandboxSpec

_AT_FDCWD = -100  # AT_FDCWD, of no effect on an absolute path

Inodes = tuple[tuple[str, int, int], ...]


def mounted_inodes(spec: SandboxSpec) -> Inodes:
    """Each covered path with the file it names now. Looked at often, so that it costs one call a path.

    A link in the way that leads to the same file takes no cover off: a cover lies on the file, not on its path.
    """
    return tuple(_lstat_inode(path) for path in (*spec.hidden, *(mount.source for mount in spec.mounts)))


def special_inodes(spec: SandboxSpec) -> Inodes:
    """The same for sockets and pipes, which services replace when they start again."""
    return tuple(_lstat_inode(path) for path in spec.special)


def expected_mounts(spec: SandboxSpec) -> list[tuple[str, int, int]]:
    """The workspace and each mount by its path inside, with the file that has to be found there."""
    return [(mount.inside, *_open_inode(mount.source)[1:]) for mount in (Mount(spec.workspace), *spec.mounts)]


def open_without_symlinks(path: str) -> int:
    """A handle on exactly this path. Raises SystemFault when a link lies anywhere on the way.

    Whoever may write a folder above it may have put one there, to have something else shown, or written.
    """
    try:
        if openat2.is_available():
            resolve = openat2.RESOLVE_NO_SYMLINKS | openat2.RESOLVE_NO_MAGICLINKS
            return openat2.openat2(_AT_FDCWD, path, os.O_PATH, resolve)
        if os.path.realpath(path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "a link was put in its way" if error.errno == errno.ELOOP else error.strerror
        message = f"{path} cannot be shown in the sandbox: {why}."
        raise SystemFault(message, hint="Look at that folder before you run anything there.") from error


def _lstat_inode(path: str) -> tuple[str, int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return path, 0, 0
    return path, found.st_dev, found.st_ino


def _open_inode(path: str) -> tuple[str, int, int]:
    try:
        fd = open_without_symlinks(path)
    except SystemFault:
        return path, 0, 0
    try:
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return path, found.st_dev, found.st_ino
