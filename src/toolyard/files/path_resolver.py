"""Opens a path beneath a folder's handle, in two ways with the same results.

`open_by_kernel` asks openat2 to refuse any step out; `open_by_walk` opens one component at a time without following
links and resolves each link itself. The walk serves old kernels, and absolute links back into the same folder, which
openat2 refuses altogether. Both return an O_PATH descriptor: nothing is opened for reading or writing yet, so a named
pipe or a device cannot block or act.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass

from toolyard.core.paths import relative_to
from toolyard.linux import openat2

_BENEATH = openat2.RESOLVE_BENEATH | openat2.RESOLVE_NO_MAGICLINKS
_STRICT = _BENEATH | openat2.RESOLVE_NO_SYMLINKS
_EAGAIN_TRIES = 64  # the kernel returns EAGAIN while folders on the way are being renamed
_MAX_LINKS = 40  # as the kernel


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """The folder that lookups stay beneath: its handle, and its real path for links that name it."""

    fd: int
    path: str


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
