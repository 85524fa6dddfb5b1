"""A Root is an open folder that files are opened beneath; a Handle is one object opened beneath it.

The Root owns its descriptor until `close()`. A Handle owns its own and is used as a context manager. `Handle.real` is
the real path of the object, read from the open descriptor, so no link and no race can falsify it.

A path is opened beneath a folder in two ways with the same results. `open_by_kernel` asks openat2 to refuse any step
out; `open_by_walk` opens one component at a time without following links and resolves each link itself. The walk
serves old kernels, and absolute links back into the same folder, which openat2 refuses altogether. Both return an
O_PATH descriptor: nothing is opened for reading or writing yet, so a named pipe or a device cannot block or act.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections import deque
from dataclasses import dataclass

from toolyard.core.closeable import Closeable
from toolyard.core.paths import relative_to
from toolyard.files.os_errors import explain, not_a_file_error
from toolyard.linux import openat2

FOLDER_MODE = 0o755
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DELETED = " (deleted)"
_ODD = re.compile(r"(?:^|/)(?:\.|/|$)")  # names that are empty or begin with a dot: left to the kernel to resolve
_REPLACED_TRIES = 100
_BENEATH = openat2.RESOLVE_BENEATH | openat2.RESOLVE_NO_MAGICLINKS
_STRICT = _BENEATH | openat2.RESOLVE_NO_SYMLINKS
_EAGAIN_TRIES = 64  # the kernel returns EAGAIN while folders on the way are being renamed
_MAX_LINKS = 40  # as the kernel


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """The folder that lookups stay beneath: its handle, and its real path for links that name it."""

    fd: int
    path: str


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


def open_beneath(folder: BaseFolder, relative: str, *, links: bool = True, kernel: bool | None = None) -> int:
    """Opens `relative` beneath `folder` as an O_PATH descriptor; with `links` false any link on the way is refused.

    Raises OSError: EXDEV when the path leads out, ELOOP for a link that may not be followed, ENOENT and the like.
    """
    if kernel is None:
        kernel = openat2.is_available()
    if not kernel:
        return open_by_walk(folder, relative, links=links)
    try:
        return open_by_kernel(folder, relative, links=links)
    except OSError as error:
        if error.errno == errno.EXDEV and links:
            return open_by_walk(folder, relative, links=True)
        raise


def open_by_kernel(folder: BaseFolder, relative: str, *, links: bool) -> int:
    """Opens the path with one openat2 call. Raises OSError."""
    resolve = _BENEATH if links else _STRICT
    for _ in range(_EAGAIN_TRIES):
        try:
            return openat2.openat2(folder.fd, relative, os.O_PATH, resolve)
        except BlockingIOError:
            continue
    raise OSError(errno.EXDEV, "the folders on the way keep changing", relative)


def open_by_walk(folder: BaseFolder, relative: str, *, links: bool) -> int:
    """Opens the path one component at a time. Raises OSError."""
    if relative.startswith("/"):
        raise OSError(errno.EXDEV, "not a path beneath the folder", relative)
    walk = _PathLookup(folder, relative, links=links)
    try:
        return walk.run()
    finally:
        walk.close()


class _PathLookup:
    """One lookup: a stack of handles from the folder down, so that `..` returns to a handle already checked."""

    def __init__(self, folder: BaseFolder, relative: str, *, links: bool) -> None:
        self._folder = folder
        self._links = links
        self._remaining = deque(_parts(relative))
        self._stack: list[int] = []
        self._followed = 0

    def close(self) -> None:
        for fd in self._stack:
            os.close(fd)
        self._stack.clear()

    def run(self) -> int:
        while self._remaining:
            part = self._remaining.popleft()
            if part == "..":
                self._step_up()
            elif part == ".":
                self._check_is_folder()
            else:
                self._step(part)
        if not self._stack:
            return os.open(".", os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder.fd)
        return self._stack.pop()

    def _step_up(self) -> None:
        if not self._stack:
            raise OSError(errno.EXDEV, "leads out of the folder", "..")
        self._check_is_folder()
        os.close(self._stack.pop())

    def _check_is_folder(self) -> None:
        if self._stack and not stat.S_ISDIR(os.fstat(self._stack[-1]).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def _step(self, part: str) -> None:
        here = self._stack[-1] if self._stack else self._folder.fd
        fd = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            self._stack.append(fd)
            return
        try:
            target = os.readlink("", dir_fd=fd)
        finally:
            os.close(fd)
        self._follow(target)

    def _follow(self, target: str) -> None:
        self._followed += 1
        if not self._links or self._followed > _MAX_LINKS:
            raise OSError(errno.ELOOP, "a link that may not be followed", target)
        if target.startswith("/"):
            # Not collapsed lexically: a component that looks like `out/..` may be a link.
            inside = relative_to("/" + "/".join(part for part in target.split("/") if part), self._folder.path)
            if inside is None:
                raise OSError(errno.EXDEV, "a link leads out of the folder", target)
            self.close()
            target = f"{inside}/" if target.endswith("/") else inside
        self._remaining.extendleft(reversed(_parts(target)))


def _parts(path: str) -> list[str]:
    """Splits a path into names; a slash at the end requires a folder, as `.` does."""
    parts = [part for part in path.split("/") if part]
    return [*parts, "."] if path.endswith("/") else parts
