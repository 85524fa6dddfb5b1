"""Opens folders beneath a root: never through a link or onto another mount, whatever changes meanwhile.

Each folder is opened by its whole path from the root's handle, so that no chain of handles has to stay open, and
moving a folder away affects no other lookup.
"""

from __future__ import annotations

import errno
import os

from toolyard.core.closeable import Closeable
from toolyard.files.os_errors import explain
from toolyard.files.roots import BaseFolder, open_by_walk
from toolyard.linux import openat2

_STRICT = openat2.RESOLVE_BENEATH | openat2.RESOLVE_NO_SYMLINKS | openat2.RESOLVE_NO_XDEV
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_EAGAIN_TRIES = 64  # the kernel returns EAGAIN while folders on the way are being renamed


class RootFolder(Closeable):
    """The root folder of a snapshot. Owns its descriptor until `close()`."""

    def __init__(self, path: str, *, kernel: bool | None = None) -> None:
        """Opens the folder. Raises our errors if it does not exist. `kernel` false walks without openat2."""
        self._kernel = openat2.is_available() if kernel is None else kernel
        try:
            self.fd = os.open(path, _READ)
        except OSError as error:
            raise explain(error, path) from error
        status = os.fstat(self.fd)
        self.path = os.readlink(f"/proc/self/fd/{self.fd}")
        self.device = status.st_dev
        self.mode = status.st_mode & 0o7777
        self._folder = BaseFolder(self.fd, self.path)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open(self, path: bytes) -> int:
        """Opens the folder at `path` for reading. OSError: ELOOP or ENOTDIR for a link, EXDEV for a mount."""
        if not self._kernel:
            return self._open_by_walk(path)
        for _ in range(_EAGAIN_TRIES):
            try:
                return openat2.openat2(self.fd, os.fsdecode(path) or ".", _READ, _STRICT)
            except BlockingIOError:
                continue
        raise OSError(errno.ELOOP, "the folders on the way keep changing", path)

    def _open_by_walk(self, path: bytes) -> int:
        handle = open_by_walk(self._folder, os.fsdecode(path) or ".", links=False)
        try:
            fd = os.open(".", _READ, dir_fd=handle)
        finally:
            os.close(handle)
        if os.fstat(fd).st_dev != self.device:
            os.close(fd)
            raise OSError(errno.EXDEV, "another mount", path)
        return fd


def join_path(folder: bytes, name: bytes) -> bytes:
    """Joins a folder and a name; the empty folder is the root."""
    return folder + b"/" + name if folder else name


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """Splits a path into its folder and its name."""
    folder, _, name = path.rpartition(b"/")
    return folder, name
