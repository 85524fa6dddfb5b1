"""Detects replaced files under protective mounts: the kernel drops a mount when its name is replaced.

Editors and git replace files by renaming a new one over them; a file that was hidden or read-only inside then becomes
accessible. So the files are checked while runs are active, and a sandbox that lost a mount is ended.
"""

from __future__ import annotations

import errno
import os

from toolyard.core.errors import SystemFault
from toolyard.linux import openat2
from toolyard.sandbox.spec import Mount, SandboxSpec

_AT_FDCWD = -100  # AT_FDCWD, of no effect on an absolute path

Inodes = tuple[tuple[str, int, int], ...]
"""Paths with their device and inode."""


def mounted_inodes(spec: SandboxSpec) -> Inodes:
    """Returns each protected path with its current device and inode. Called often: one system call per path.

    A link on the way to the same file does no harm: a mount covers the file, not its path.
    """
    return tuple(_lstat_inode(path) for path in (*spec.hidden, *(mount.source for mount in spec.mounts)))


def special_inodes(spec: SandboxSpec) -> Inodes:
    """Returns the same for sockets and pipes, which services replace when they restart."""
    return tuple(_lstat_inode(path) for path in spec.special)


def expected_mounts(spec: SandboxSpec) -> list[tuple[str, int, int]]:
    """Returns the workspace and each mount, by path inside, with the expected device and inode."""
    return [(mount.inside, *_open_inode(mount.source)[1:]) for mount in (Mount(spec.workspace), *spec.mounts)]


def open_without_symlinks(path: str) -> int:
    """Opens exactly this path. Raises SystemFault if any part of it is a symbolic link.

    An agent that may write a parent folder could have put a link there to expose something else.
    """
    try:
        if openat2.is_available():
            resolve = openat2.RESOLVE_NO_SYMLINKS | openat2.RESOLVE_NO_MAGICLINKS
            return openat2.openat2(_AT_FDCWD, path, os.O_PATH, resolve)
        if os.path.realpath(path) != path:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "its path contains a symbolic link" if error.errno == errno.ELOOP else error.strerror
        message = f"{path} cannot be shown in the sandbox: {why}."
        raise SystemFault(message, hint="Inspect that folder before you run anything there.") from error


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
