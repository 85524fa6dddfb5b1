"""Reads and changes files through Targets.

A change happens in a folder's handle that was reached without following any link, under a lock on that folder which
other Toolyard processes honour too. New content is written to an unnamed file, synced, and put in place in one step:
a reader sees the complete old content or the complete new one, even after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from toolyard.core.errors import ToolError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS, Limits
from toolyard.core.paths import is_beneath, relative_to
from toolyard.files.file_lock import lock
from toolyard.files.mounts import Target
from toolyard.files.os_errors import explain, not_a_file_error, replaced_error
from toolyard.files.roots import Handle
from toolyard.files.temp_names import temporary_name
from toolyard.linux.renameat2 import rename_without_replacing

_CHUNK = 1 << 20
_KEPT_MODE = 0o1777
_CAPABILITIES = "security.capability"
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Contents:
    """A file's bytes and its status when they were read."""

    data: bytes
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What a rewrite did: the bytes before (None if the file is new) and after, and the new status."""

    before: bytes | None
    after: bytes
    status: os.stat_result


Transform = Callable[[Contents | None], bytes]


def is_large(target: Target, limits: Limits) -> bool:
    """Returns whether a file exceeds the size that is read whole."""
    return target.exists and target.handle.is_file and target.handle.status.st_size > limits.file_bytes


def read(target: Target, limits: Limits) -> Contents:
    """Reads a whole regular file, at most `limits.file_bytes` of it."""
    if not target.exists:
        raise explain(FileNotFoundError(errno.ENOENT, "not there"), target.path)
    return read_handle(target.handle, target.path, limits)


def read_handle(handle: Handle, path: str, limits: Limits) -> Contents:
    """Reads a file that is already open; `path` is its name in errors."""
    if not handle.is_file:
        raise not_a_file_error(handle.status.st_mode, path)
    try:
        fd = handle.reopen_fd(os.O_RDONLY)
    except OSError as error:
        raise explain(error, path) from error
    try:
        return _read_fd(fd, path, limits)
    except OSError as error:
        raise explain(error, path) from error
    finally:
        os.close(fd)


def _read_fd(fd: int, path: str, limits: Limits) -> Contents:
    status = os.fstat(fd)
    if status.st_size > limits.file_bytes:
        raise too_large_error(path, status.st_size, limits)
    data = os.read(fd, status.st_size + 1)
    if len(data) != status.st_size:  # it grew, or its file system does not report sizes
        parts = [data]
        total = len(data)
        while chunk := os.read(fd, _CHUNK):
            parts.append(chunk)
            total += len(chunk)
            if total > limits.file_bytes:
                raise too_large_error(path, total, limits)
        data = b"".join(parts)
    return Contents(data, status)


def too_large_error(path: str, size: int, limits: Limits) -> ValidationError:
    """Builds the error for a file above the size limit."""
    return ValidationError.of(
        "file",
        f"{path} has {size:,} bytes; the limit is {limits.file_bytes:,}",
        hint="Read a part of it with offset and limit, search it, or raise limits.file_bytes in the configuration.",
    )


def _no_check() -> None:
    """Default of `before_waiting`: never cancels."""


def rewrite(
    target: Target, transform: Transform, limits: Limits, before_waiting: Callable[[], None] = _no_check
) -> RewriteResult:
    """Replaces a file's content by what `transform` returns for the old content, or creates it. All or nothing.

    `transform` runs under the folder's lock and may raise to cancel. So may `before_waiting`, which is called
    repeatedly while another process holds that lock.
    """

    def apply_transform(before: Contents | None) -> bytes:
        after = transform(before)
        if len(after) > limits.file_bytes:
            raise too_large_error(target.path, len(after), limits)
        return after

    if len(target.missing) > 1:
        apply_transform(None)  # dry run: a refused change must not leave its parent folders behind
    folder, name = _open_parent(target)
    try:
        with lock_folders((folder,), target.path, limits, before_waiting):
            before = _read_current(folder, name, target.path, limits)
            after = apply_transform(before)
            status = _write_file(folder, name, after, before.status if before else None)
    except OSError as error:
        raise explain(error, target.path) from error
    finally:
        os.close(folder)
    return RewriteResult(before.data if before else None, after, status)


def make_folder(target: Target) -> bool:
    """Creates a folder with its parents. Returns False if it already exists."""
    if target.exists:
        if target.handle.is_folder:
            return False
        raise explain(FileExistsError(errno.EEXIST, "a file is there"), target.path)
    try:
        os.close(_open_or_make_folders(target, target.missing))
    except OSError as error:
        raise explain(error, target.path) from error
    return True


def move(
    source: Target,
    destination: Target,
    limits: Limits = DEFAULT_LIMITS,
    before_waiting: Callable[[], None] = _no_check,
) -> None:
    """Renames a file or folder; never replaces anything. Waits for writers of either folder."""
    if not source.exists:
        raise explain(FileNotFoundError(errno.ENOENT, "not there"), source.path)
    if destination.exists:
        raise explain(FileExistsError(errno.EEXIST, "something is there"), destination.path)
    if is_beneath(destination.real, source.real):
        raise ToolError(f"{source.path} cannot be moved into itself.", hint="Choose a place outside it.")
    try:
        here, name = _open_parent(source)
        try:
            there, new_name = _open_parent(destination)
            try:
                with lock_folders((here, there), destination.path, limits, before_waiting):
                    _check_same_file(here, name, source)
                    rename_without_replacing(name, here, new_name, there)
            finally:
                os.close(there)
        finally:
            os.close(here)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise ToolError(
                f"{source.path} and {destination.path} are on different disks.", hint="Write a copy instead."
            ) from error
        raise explain(error, destination.path) from error


def _check_same_file(folder: int, name: str, source: Target) -> None:
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise replaced_error(source.path) from None
    if (now.st_dev, now.st_ino) != (source.handle.status.st_dev, source.handle.status.st_ino):
        raise replaced_error(source.path)


def _open_parent(target: Target) -> tuple[int, str]:
    """Opens the folder that contains the target, created if it is missing. Returns its handle and the target's name.

    No link is followed: the folder is the one that the policy checked.
    """
    if target.exists:
        parent, name = os.path.split(target.relative)
        if target.relative == ".":
            raise not_a_file_error(stat.S_IFDIR, target.path)
        try:
            return target.root.open_folder(parent or "."), name
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EXDEV}:
                raise replaced_error(target.path) from error
            raise explain(error, target.path) from error
    try:
        return _open_or_make_folders(target, target.missing[:-1]), target.missing[-1]
    except OSError as error:
        raise explain(error, target.path) from error


def _open_or_make_folders(target: Target, names: tuple[str, ...]) -> int:
    """Walks down from what exists through `names`, creating missing folders, never through a link."""
    start = relative_to(target.handle.real, target.root.path)
    if start is None:  # moved out of its root since it was opened
        raise replaced_error(target.path)
    fd = target.root.open_folder(start)
    for name in names:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except NotADirectoryError as error:  # the kernel reports this for a link, too
            if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise replaced_error(target.path) from error
            raise
        finally:
            os.close(fd)
        fd = below
    return fd


@contextlib.contextmanager
def lock_folders(
    folders: tuple[int, ...], path: str, limits: Limits, before_waiting: Callable[[], None] = _no_check
) -> Generator[None]:
    """Holds the locks of these folders. Raises ToolError if another program holds one for too long."""

    def timeout_error() -> ToolError:
        message = f"Another program has the folder of {path} locked; nothing was written."
        return ToolError(message, hint="Try again in a moment.", retryable=True)

    deadline = time.monotonic() + limits.lock_seconds
    # Each one once and always in the same order, to prevent a deadlock.
    distinct = {(status.st_dev, status.st_ino): fd for fd in folders for status in (os.fstat(fd),)}
    with contextlib.ExitStack() as locks:
        for _, fd in sorted(distinct.items()):
            lock(fd, deadline, timeout_error, before_waiting)
            locks.callback(fcntl.flock, fd, fcntl.LOCK_UN)
        yield


def _read_current(folder: int, name: str, path: str, limits: Limits) -> Contents | None:
    """Reads the file that is at `name` now; None if there is none. Anything but a regular file is refused."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise replaced_error(path)
    if not stat.S_ISREG(status.st_mode):
        raise not_a_file_error(status.st_mode, path)
    if not status.st_mode & 0o222:
        raise ToolError(f"{path} is marked read-only.", hint="Ask the user to make it writable.")
    try:
        fd = _open_current(folder, name)
    except OSError as error:
        raise replaced_error(path) if error.errno == errno.ELOOP else explain(error, path) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise replaced_error(path)
        return _read_fd(fd, path, limits)
    finally:
        os.close(fd)


def _open_current(folder: int, name: str) -> int:
    """Opens the file for reading, and checks that it is writable: an unwritable file must not be replaced."""
    try:
        return os.open(name, os.O_RDWR | _CAREFUL, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a running program: it is replaced, not written to
            raise
    return os.open(name, os.O_RDONLY | _CAREFUL, dir_fd=folder)


def _write_file(folder: int, name: str, data: bytes, old: os.stat_result | None) -> os.stat_result:
    fd, temporary = _create_unnamed_file(folder)
    try:
        _write_all(fd, data)
        if old is not None:
            _keep_attributes(fd, folder, name, old)
        os.fsync(fd)
        if temporary is None:
            temporary = _link_unnamed_file(fd, folder, name, replace=old is not None)
        if temporary != name:
            if old is None:
                _rename_new_file(temporary, name, folder)
            else:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return os.fstat(fd)
    except BaseException:
        if temporary is not None and temporary != name:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def _create_unnamed_file(folder: int) -> tuple[int, str | None]:
    """Creates a file without a name, so that a kill leaves nothing; with a temporary name if unsupported."""
    try:
        return os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder), None
    except OSError as error:
        if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL}:
            raise
    name = temporary_name()
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
    return os.open(name, flags, 0o666, dir_fd=folder), name


def _link_unnamed_file(fd: int, folder: int, name: str, *, replace: bool) -> str:
    """Names the unnamed file: its final name if that is free, else a temporary one to rename from."""
    chosen = temporary_name() if replace else name
    try:
        os.link(f"/proc/self/fd/{fd}", chosen, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        raise _appeared_error(name) from None
    return chosen


def _rename_new_file(temporary: str, name: str, folder: int) -> None:
    try:
        rename_without_replacing(temporary, folder, name, folder)
    except FileExistsError:
        raise _appeared_error(name) from None


def _appeared_error(name: str) -> ToolError:
    return ToolError(
        f"{name} appeared while it was being created; nothing was written.",
        hint="Read it, then decide again.",
        retryable=True,
    )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _keep_attributes(fd: int, folder: int, name: str, old: os.stat_result) -> None:
    """Copies mode, owner and extended attributes; set-id bits and capabilities are dropped, as on any write."""
    mode = stat.S_IMODE(old.st_mode) & _KEPT_MODE
    if not _restore_owner(fd, old):
        # The file has another group now, which gets no more rights than everyone has.
        mode = mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    os.fchmod(fd, mode)
    source = f"/proc/self/fd/{folder}/{name}"
    with contextlib.suppress(OSError):  # not every file system has them
        for attribute in os.listxattr(source, follow_symlinks=False):
            if attribute != _CAPABILITIES:
                with contextlib.suppress(OSError):  # and some only root may set
                    os.setxattr(fd, attribute, os.getxattr(source, attribute, follow_symlinks=False))


def _restore_owner(fd: int, old: os.stat_result) -> bool:
    """Restores the old owner as far as possible. Returns whether at least the group is the same."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid):
        return True
    for owner in (old.st_uid, -1):  # an ordinary user cannot change the owner, but may choose among their groups
        with contextlib.suppress(PermissionError):
            os.fchown(fd, owner, old.st_gid)
            return True
    return now.st_gid == old.st_gid
