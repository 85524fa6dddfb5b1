"""Writes single entries into an open folder: completely or not at all, and never over an unsaved file.

A new file is written without a name and linked, without replacing anything, when it is complete. To replace an old
file, the two names are exchanged, the old file is checked once more (a snapshot must contain it), and only then
removed. So a killed process leaves only complete files under temporary names; only a file system without O_TMPFILE
may leave a partial one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator

from toolyard.files.temp_names import temporary_name
from toolyard.linux.renameat2 import exchange, rename_without_replacing
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

FILE_MODE = 0o1777
"""Mode bits that a file gets back: no set-id bits, because the file may have another owner now."""
FOLDER_MODE = 0o3777
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
_THERE = "something else is there that no snapshot contains"
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}

Data = bytes | memoryview


class Skipped(Exception):  # noqa: N818 - not an error: it is reported, and the restore goes on
    """The path was skipped, because something is there that no snapshot contains."""


def not_stored_reason(entry: TreeEntry) -> str:
    """Returns why the snapshot has no content for an entry."""
    return f"the snapshot does not contain it: {os.fsdecode(entry.ref)}"


def write_entry(
    fd: int,
    name: bytes | str,
    entry: TreeEntry,
    data: Iterable[tuple[int, Data]],
    old: os.stat_result | None = None,
) -> None:
    """Creates a file or link under a name that must be free. `data` yields offsets and bytes of a file.

    The file gets the owner of `old`, as far as we are allowed to change it.
    """
    if entry.kind is EntryKind.LINK:
        os.symlink(entry.ref, os.fsencode(name), dir_fd=fd)
        return
    new = os.open(name, _NEW, 0o600, dir_fd=fd)
    try:
        _write_data(new, entry, data, old)
    except BaseException:
        os.unlink(name, dir_fd=fd)
        raise
    finally:
        os.close(new)


def write_small_file(fd: int, name: bytes, entry: TreeEntry, data: Data) -> None:
    """Creates a file from bytes in one piece: the quick path for a restore of tens of thousands of files."""
    new = os.open(name, _NEW, 0o600, dir_fd=fd)
    try:
        if data:
            _write(new, 0, data)
        if len(data) != entry.size:
            os.ftruncate(new, entry.size)
        os.fchmod(new, entry.mode & FILE_MODE)
    except BaseException:
        os.unlink(name, dir_fd=fd)
        raise
    finally:
        os.close(new)


def _write_atomically(
    fd: int, name: str, entry: TreeEntry, data: Iterable[tuple[int, Data]], old: os.stat_result | None = None
) -> None:
    """Creates a file or link that becomes visible only when complete. FileExistsError if the name is taken."""
    try:
        new = os.open(".", _UNNAMED, 0o600, dir_fd=fd) if entry.is_file else -1
    except OSError as error:
        if error.errno not in _UNSUPPORTED | {errno.EISDIR, errno.ENOENT}:
            raise
        new = -1
    if new < 0:
        temporary = temporary_name()
        write_entry(fd, temporary, entry, data, old)
        try:
            rename_without_replacing(temporary, fd, name, fd)
        except OSError:
            _unlink(fd, temporary)
            raise
        return
    try:
        _write_data(new, entry, data, old)
        os.link(f"/proc/self/fd/{new}", name, dst_dir_fd=fd, follow_symlinks=True)
    finally:
        os.close(new)


def _write_data(new: int, entry: TreeEntry, data: Iterable[tuple[int, Data]], old: os.stat_result | None) -> None:
    end = 0
    for at, piece in data:
        _write(new, at, piece)
        end = at + len(piece)
    if end != entry.size:
        os.ftruncate(new, entry.size)
    if old is not None:
        _restore_owner(new, old)
    os.fchmod(new, entry.mode & FILE_MODE)


def _write(fd: int, at: int, piece: Data) -> None:
    done = os.pwrite(fd, piece, at)
    while done < len(piece):
        done += os.pwrite(fd, memoryview(piece)[done:], at + done)


def data_pieces(reader: ObjectReader, entry: TreeEntry) -> Iterator[tuple[int, Data]]:
    """Yields the data of a file, without its holes. Raises DamagedObjectError before the first damaged piece."""
    if entry.kind is EntryKind.LINK:
        return
    at = 0
    for size, digest in reader.runs(entry):
        if digest is not None:
            yield at, reader.read(digest)
        at += size


def add_entry(fd: int, entry: TreeEntry, data: Iterable[tuple[int, Data]]) -> None:
    """Adds a new entry where nothing exists. Raises Skipped if something does."""
    if lstat_or_none(fd, entry.name) is not None:
        raise Skipped(_THERE)
    try:
        _write_atomically(fd, os.fsdecode(entry.name), entry, data)
    except FileExistsError:
        raise Skipped(_THERE) from None


def replace_entry(fd: int, entry: TreeEntry, data: Iterable[tuple[int, Data]], old: os.stat_result) -> None:
    """Replaces an entry that matches `old`. Raises Skipped if it has changed since."""
    temporary, name = temporary_name(), os.fsdecode(entry.name)
    _write_atomically(fd, temporary, entry, data, old)
    try:
        exchange(temporary, name, fd)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
            return
        _unlink(fd, temporary)
        if error.errno == errno.ENOENT:
            raise Skipped("it was removed meanwhile") from None
        raise
    if _is_unchanged(fd, temporary, old):
        _unlink(fd, temporary)
        return
    exchange(temporary, name, fd)  # another program wrote a newer file: put that back
    _unlink(fd, temporary)
    raise Skipped("it was changed meanwhile")


def remove_entry(fd: int, name: bytes, old: os.stat_result) -> None:
    """Removes a file or link that matches `old`. Raises Skipped if it has changed since."""
    temporary = temporary_name()
    try:
        os.rename(name, temporary, src_dir_fd=fd, dst_dir_fd=fd)
    except FileNotFoundError:
        return
    if _is_unchanged(fd, temporary, old):
        os.unlink(temporary, dir_fd=fd)
        return
    with contextlib.suppress(FileExistsError):
        rename_without_replacing(temporary, fd, os.fsdecode(name), fd)
    raise Skipped("it was changed meanwhile")


def set_mode(fd: int, entry: TreeEntry) -> None:
    """Sets the mode of a file through its own handle, so that a link put there meanwhile is not followed."""
    own = os.open(entry.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        if not stat.S_ISREG(os.fstat(own).st_mode):
            raise Skipped("it is no longer a file")
        os.chmod(f"/proc/self/fd/{own}", entry.mode & FILE_MODE)
    finally:
        os.close(own)


def lstat_or_none(fd: int, name: bytes) -> os.stat_result | None:
    """Returns the status of a name without following links; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_unchanged(fd: int, name: str, old: os.stat_result) -> bool:
    """Returns whether a file still matches `old`. The ctime is ignored, because renaming changes it."""
    now = os.stat(name, dir_fd=fd, follow_symlinks=False)
    marks = ("st_ino", "st_mode", "st_size", "st_mtime_ns")
    return all(getattr(now, mark) == getattr(old, mark) for mark in marks)


def _restore_owner(fd: int, old: os.stat_result) -> None:
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):  # only root may
            os.fchown(fd, old.st_uid, old.st_gid)


def _unlink(fd: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)
