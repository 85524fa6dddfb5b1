"""A Root is an open folder that files are opened beneath; a Handle is one object opened beneath it.

The Root owns its descriptor until `close()`. A Handle owns its own and is used as a context manager. `Handle.real` is
the real path of the object, read from the open descriptor, so no link and no race can falsify it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat

from toolyard.core.closeable import Closeable
from toolyard.files.os_errors import explain, not_a_file_error
from toolyard.files.path_resolver import BaseFolder, open_beneath

FOLDER_MODE = 0o755
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DELETED = " (deleted)"
_ODD = re.compile(r"(?:^|/)(?:\.|/|$)")  # names that are empty or begin with a dot: left to the kernel to resolve
_REPLACED_TRIES = 100


class Handle(Closeable):
    """One object beneath a root, opened with O_PATH: it can be inspected, and reopened for reading or writing."""

    __slots__ = ("fd", "real", "status")

    def __init__(self, fd: int, real: str | None = None) -> None:
        """Takes ownership of `fd`, and closes it if its status cannot be read. `real` is its real path, if known."""
        self.fd = fd
        try:
            self.real = os.readlink(f"/proc/self/fd/{fd}") if real is None else real
            self.status = os.fstat(fd)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def is_gone(self) -> bool:
        """Returns whether its name was removed before it could be read: the kernel appends a mark to such names."""
        if not self.real.endswith(_DELETED):
            return False
        try:
            there = os.lstat(self.real)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != (self.status.st_dev, self.status.st_ino)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    def reopen_fd(self, flags: int) -> int:
        """Opens a descriptor of the same object for use. Only regular files and folders are opened.

        Never blocks: some kernel files claim to be regular and block their readers.
        """
        if not (self.is_file or self.is_folder):
            raise not_a_file_error(self.status.st_mode, self.real)
        return os.open(f"/proc/self/fd/{self.fd}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


class Root:
    """An open folder. Every path given to it is relative, and every lookup stays beneath it."""

    def __init__(self, path: str, *, display_prefix: str = "", kernel: bool | None = None) -> None:
        """`display_prefix` precedes relative paths in results: empty for the workspace, `/its/path/` elsewhere."""
        self.display_prefix = display_prefix
        try:
            self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise explain(error, path) from error
        self.path = os.readlink(f"/proc/self/fd/{self.fd}")
        self.device = os.fstat(self.fd).st_dev
        self._folder = BaseFolder(self.fd, self.path)
        self._prefix = self.path.rstrip("/") + "/"
        self._kernel = kernel

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open(self, relative: str, *, links: bool = True) -> Handle:
        """Opens the object at `relative`. Raises OSError as `open_beneath` does."""
        if self.fd < 0:  # the number may already belong to another folder
            raise OSError(errno.EBADF, "the folder is closed", relative)
        if not _ODD.search(relative):
            try:
                fd = open_beneath(self._folder, relative, links=False, kernel=self._kernel)
            except OSError as error:
                if error.errno != errno.ELOOP or not links:
                    raise
            else:  # no link on the way: the real path is the given one
                return Handle(fd, f"{self._prefix}{relative}")
        for _ in range(_REPLACED_TRIES):
            handle = Handle(open_beneath(self._folder, relative, links=links, kernel=self._kernel))
            if not handle.is_gone:
                return handle
            handle.close()  # it was replaced by a new file: try again
        raise FileNotFoundError(errno.ENOENT, "keeps being replaced", relative)

    def open_folder(self, relative: str) -> int:
        """Opens the folder at `relative` for reading. No link on the way is followed."""
        with self.open(relative, links=False) as handle:
            return handle.reopen_fd(os.O_RDONLY | os.O_DIRECTORY)

    def make_folder(self, relative: str) -> int:
        """Opens a folder as `open_folder` does, and creates every missing folder on the way.

        The `filename` of an OSError is the part of the path that failed; a link there is ELOOP.
        """
        folder = os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in relative.split("/"):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, FOLDER_MODE, dir_fd=folder)
                inner = os.open(name, OPEN_FOLDER, dir_fd=folder)
            except OSError as error:
                raise _error_naming_link(error, folder, name) from error
            finally:
                os.close(folder)
            folder = inner
        return folder


def _error_naming_link(error: OSError, folder: int, name: str) -> OSError:
    """Returns ELOOP for a link in the place of a folder, which the kernel reports as ENOTDIR."""
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return OSError(errno.ELOOP, "It is a link", name)
    return OSError(error.errno, error.strerror, name)
