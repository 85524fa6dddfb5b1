"""Lists the changes between a fork and its base tree.

For an overlay only the upper layer is read, which contains the changed files: the cost depends on the changes, not on
the tree. There a device 0:0 (whiteout) marks a deleted name, and an "opaque" attribute marks a folder that hides the
lower one. A fork that is a copy is compared file by file.

Everything is opened by handle and never through a link: code in a sandbox may be changing the layer meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from toolyard.core.limits import MIB
from toolyard.files.root_folder import RootFolder, join_path
from toolyard.snapshots.diff.tree_diff import ChangeType

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE = 1 * MIB
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}

Stats = dict[bytes, os.stat_result]


@dataclass(frozen=True, slots=True, order=True)
class ForkChange:
    """One path of a fork that differs from its base. An added or removed folder is listed with its content."""

    path: bytes
    what: ChangeType


def overlay_changes(lower: str, upper: str) -> list[ForkChange]:
    """Lists the changes in the upper layer of an overlay."""
    with RootFolder(lower) as old, RootFolder(upper) as new:
        return sorted(_TreeComparison(old, new, is_copy=False).run())


def copy_changes(lower: str, copy: str) -> list[ForkChange]:
    """Lists the changes in a copy of the base tree."""
    with RootFolder(lower) as old, RootFolder(copy) as new:
        return sorted(_TreeComparison(old, new, is_copy=True).run())


class _TreeComparison:
    def __init__(self, old: RootFolder, new: RootFolder, *, is_copy: bool) -> None:
        self._old = old
        self._new = new
        self._is_copy = is_copy

    def run(self) -> Iterator[ForkChange]:
        # A path, whether the old tree has a folder there, and whether the new one has.
        waiting = [(b"", True, True)]
        while waiting:
            path, was, is_now = waiting.pop()
            had = _list_folder(self._old, path)[0] if was else {}
            has, covers = _list_folder(self._new, path) if is_now else ({}, True)
            covers = covers or self._is_copy
            for name in had.keys() | has.keys():
                before, after = had.get(name), has.get(name)
                if after is None and not covers:
                    continue  # the lower layer shows through: unchanged
                if after is not None and _is_whiteout(after):
                    after = None
                where = join_path(path, name)
                yield from self._entry_changes(where, before, after)
                folders = (_is_folder(before), _is_folder(after))
                if any(folders):
                    waiting.append((where, *folders))

    def _entry_changes(
        self, path: bytes, before: os.stat_result | None, after: os.stat_result | None
    ) -> Iterator[ForkChange]:
        if before is None or after is None:
            if before is not None or after is not None:
                yield ForkChange(path, ChangeType.ADDED if before is None else ChangeType.REMOVED)
        elif _is_folder(before) != _is_folder(after):
            yield ForkChange(path, ChangeType.REMOVED)
            yield ForkChange(path, ChangeType.ADDED)
        elif not _is_folder(before) and not self._is_same(path, before, after):
            yield ForkChange(path, ChangeType.CHANGED)
        elif stat.S_IMODE(before.st_mode) != stat.S_IMODE(after.st_mode):
            yield ForkChange(path, ChangeType.MODE)

    def _is_same(self, path: bytes, before: os.stat_result, after: os.stat_result) -> bool:
        if stat.S_IFMT(before.st_mode) != stat.S_IFMT(after.st_mode) or before.st_size != after.st_size:
            return False
        folder, _, name = path.rpartition(b"/")
        try:
            with _open_folder(self._old, folder) as old, _open_folder(self._new, folder) as new:
                if stat.S_ISLNK(before.st_mode):
                    return os.readlink(name, dir_fd=old) == os.readlink(name, dir_fd=new)
                return stat.S_ISREG(before.st_mode) and _same_bytes(name, old, new)
        except OSError:  # removed or unreadable: report it as changed
            return False


@contextlib.contextmanager
def _open_folder(root: RootFolder, folder: bytes) -> Generator[int]:
    fd = root.open(folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _list_folder(root: RootFolder, path: bytes) -> tuple[Stats, bool]:
    """Returns the entries of a folder, and whether it is marked as opaque (hides the folder below)."""
    try:
        fd = root.open(path)
    except OSError as error:
        if error.errno in _GONE:  # removed during the comparison
            return {}, False
        raise
    try:
        found: Stats = {}
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    found[os.fsencode(entry.name)] = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
        return found, any(_has_xattr(fd, name) for name in _OPAQUE)
    finally:
        os.close(fd)


def _has_xattr(fd: int, name: str) -> bool:
    try:
        return os.getxattr(fd, name) == b"y"
    except OSError:
        return False


def _same_bytes(name: bytes, old: int, new: int) -> bool:
    with (
        open(os.open(name, _FILE, dir_fd=old), "rb", buffering=0) as one,
        open(os.open(name, _FILE, dir_fd=new), "rb", buffering=0) as other,
    ):
        while mine := one.read(_PIECE):
            if mine != other.read(_PIECE):
                return False
        return not other.read(1)


def _is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0
