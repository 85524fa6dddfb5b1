"""Restores a folder to the state of a snapshot, entry by entry, by handle.

Only files that the snapshot taken just before contains are removed or replaced; others are skipped and reported. A
process killed in the middle leaves every file complete, the old one or the new; when a restore has ended, everything
is on disk. The caller holds the store's lock, so two restores run one after the other; each folder is changed under
the lock that all of Toolyard's writers honour.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from toolyard.core.closeable import Closeable
from toolyard.files.root_folder import RootFolder, join_path, split_path
from toolyard.linux.overlay import sync_file_system
from toolyard.snapshots.diff.tree_diff import ChangeType, PathChange
from toolyard.snapshots.restore.file_writer import (
    FOLDER_MODE,
    Skipped,
    add_entry,
    data_pieces,
    lstat_or_none,
    not_stored_reason,
    remove_entry,
    replace_entry,
    set_mode,
)
from toolyard.snapshots.restore.plan import EMPTY_FOLDER, RestorePlan
from toolyard.snapshots.restore.staged_dir import StagedFolder
from toolyard.snapshots.restore.unchanged_check import UnchangedCheck
from toolyard.snapshots.store.lock import lock
from toolyard.snapshots.store.models import DamagedObjectError, PathNote, Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_LOCK_SECONDS = 10.0
_OWNER = 0o700
_NOT_ALLOWED = "writing it is not allowed"
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV}


MayWrite = Callable[[bytes], bool]
"""Whether something at this path may be written, replaced or removed."""


def allow_all(_: bytes) -> bool:
    """Allows writing every path."""
    return True


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore did. `before` is the snapshot that undoes it."""

    before: Snapshot
    snapshot: Snapshot
    written: int
    removed: int
    skipped: tuple[PathNote, ...]
    """Skipped, because no snapshot contains it or it was in use."""
    failed: tuple[PathNote, ...]
    """Not restored: its stored bytes are damaged, or the system refused."""
    differed: bool = True
    """Whether there was anything to restore."""
    skipped_repositories: tuple[bytes, ...] = ()
    """Repositories that differ and were not to be restored."""


class Restorer(Closeable):
    """One restore of one root. Owns the descriptor of the folder it is changing until `close()`."""

    def __init__(
        self,
        root: RootFolder,
        reader: ObjectReader,
        unchanged: UnchangedCheck,
        now: TreeEntry,
        check: Callable[[], None],
        *,
        overwrite_torn: bool,
        may_write: MayWrite = allow_all,
    ) -> None:
        self._root = root
        self._may_write = may_write
        self._reader = reader
        self._unchanged = unchanged
        self._now = now
        self._check = check
        self._overwrite_torn = overwrite_torn
        self._folder: bytes | None = None
        self._fd = -1
        self._names: dict[bytes, list[bytes]] = {}
        self._modes: dict[bytes, int] = {}
        """Folders whose mode is set last, because it may forbid changes inside them."""
        self._pending_additions: list[PathChange] = []
        """Entries to add one by one, because their folder already exists or parts of it may not be written."""
        self.written = self.removed = 0
        self._differed = False
        self._skipped_repositories: tuple[bytes, ...] = ()
        self.skipped: list[PathNote] = []
        self.failed: list[PathNote] = []

    def record_damage(self, path: bytes, damage: DamagedObjectError) -> None:
        """Records a folder that cannot be read: nothing in it is changed."""
        self.failed.append(PathNote(path, damage.message))

    def result(self, before: Snapshot, snapshot: Snapshot) -> RestoreResult:
        """Builds the result of the restore."""
        skipped, failed = tuple(self.skipped), tuple(self.failed)
        differed = self._differed or bool(failed)
        return RestoreResult(
            before, snapshot, self.written, self.removed, skipped, failed, differed, self._skipped_repositories
        )

    def run(self, plan: RestorePlan) -> None:
        """Carries out the plan. Raises OSError when the disk is full."""
        self._differed = bool(plan.removals or plan.additions or plan.modes)
        self._skipped_repositories = tuple(plan.skipped_repositories)
        for change in plan.removals:
            self._apply_change(change, self._remove)
        for change in plan.additions:
            self._apply_change(change, self._add)
        while self._pending_additions:
            self._apply_change(self._pending_additions.pop(), self._add)
        for change in plan.modes:
            self._apply_change(change, self._set_mode)
        self.close()
        for path in sorted(self._modes, reverse=True):
            self._apply_folder_mode(path, self._modes[path])
        if self._differed:
            # One sync for everything: syncing each file would take many times as long.
            sync_file_system(self._root.fd)

    def _apply_change(self, change: PathChange, work: Callable[[int, PathChange], None]) -> None:
        self._check()
        if not self._may_write(change.path):
            self.skipped.append(PathNote(change.path, _NOT_ALLOWED))
            return
        try:
            # The root itself can differ only in its mode.
            work(self._open_writable(split_path(change.path)[0]) if change.path else self._root.fd, change)
        except Skipped as skipped:
            self.skipped.append(PathNote(change.path, str(skipped)))
        except DamagedObjectError as damage:
            self.failed.append(PathNote(change.path, damage.message))
        except OSError as error:
            self._record_failure(change.path, error)

    def _record_failure(self, path: bytes, error: OSError) -> None:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise error
        self.failed.append(PathNote(path, error.strerror or str(error)))

    def _open_writable(self, folder: bytes) -> int:
        """Returns the folder's descriptor, locked, and made writable for its owner where that is allowed."""
        if self._folder == folder:
            return self._fd
        self.close()
        fd = self._root.open(folder)
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            if mode & _OWNER != _OWNER and os.geteuid() != 0:
                os.fchmod(fd, mode | _OWNER)
                self._modes.setdefault(folder, mode)
            # Released with the descriptor.
            lock(fd, _LOCK_SECONDS, os.fsdecode(folder) or "the folder", self._check)
        except BaseException:
            os.close(fd)
            raise
        self._folder, self._fd = folder, fd
        return fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._folder, self._fd = None, -1

    # Removing

    def _remove(self, fd: int, change: PathChange) -> None:
        entry = change.before
        if entry is None:
            return
        if entry.kind is EntryKind.FOLDER:
            self._remove_folder(fd, change.path, entry)
            return
        status = lstat_or_none(fd, entry.name)
        if status is None:
            return
        self._check_stored(fd, change.path, entry, status)
        remove_entry(fd, entry.name, status)
        self.removed += 1

    def _remove_folder(self, fd: int, path: bytes, entry: TreeEntry) -> None:
        try:
            os.rmdir(entry.name, dir_fd=fd)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                raise Skipped("it still contains files that no snapshot contains") from None
            if error.errno == errno.ENOTDIR:
                raise Skipped("it is no longer a folder") from None
            raise
        self._modes.pop(path, None)
        self.removed += 1

    def _check_stored(self, fd: int, path: bytes, entry: TreeEntry, status: os.stat_result) -> None:
        if entry.kind is EntryKind.SKIPPED:
            raise Skipped(f"no snapshot contains it: {os.fsdecode(entry.ref)}")
        if entry.torn:
            raise Skipped("it kept changing, so no snapshot contains its current content")
        folder, _ = split_path(path)
        self._unchanged.enter_folder(folder, self._names_in(folder))
        if not self._unchanged.is_unchanged(fd, entry, status):
            raise Skipped("it was changed after the snapshot")
        try:
            # An unchanged file is not stored again, and its stored bytes may have been damaged since.
            for _ in data_pieces(self._reader, entry):
                self._check()
        except DamagedObjectError as damage:
            raise Skipped(f"its stored copy is damaged, and this may be the only intact one: {damage.why}") from None

    def _names_in(self, folder: bytes) -> list[bytes]:
        """Returns the names that the snapshot just taken has in a folder."""
        if folder not in self._names:
            self._names.clear()  # folders are visited one after the other
            entry = self._now
            for name in folder.split(b"/") if folder else []:
                entry = next(one for one in self._reader.entries(entry.ref) if one.name == name)
            self._names[folder] = [one.name for one in self._reader.entries(entry.ref)]
        return self._names[folder]

    # Adding

    def _add(self, fd: int, change: PathChange) -> None:
        entry = change.after
        if entry is None:
            return
        if entry.kind is EntryKind.SKIPPED:
            raise Skipped(not_stored_reason(entry))
        if entry.kind is EntryKind.FOLDER:
            self._add_folder(fd, change.path, entry)
            return
        if change.what is ChangeType.ADDED:
            add_entry(fd, entry, data_pieces(self._reader, entry))
        else:
            self._replace(fd, change, entry)
        self.written += 1

    def _replace(self, fd: int, change: PathChange, entry: TreeEntry) -> None:
        if entry.torn and not self._overwrite_torn:
            raise Skipped("the snapshot may contain a torn copy; name the path to restore it anyway")
        status = lstat_or_none(fd, entry.name)
        if status is None:
            add_entry(fd, entry, data_pieces(self._reader, entry))
        elif change.before is not None:
            self._check_stored(fd, change.path, change.before, status)
            replace_entry(fd, entry, data_pieces(self._reader, entry), status)

    def _add_folder(self, fd: int, path: bytes, entry: TreeEntry) -> None:
        """Creates a new folder with everything in it under a temporary name, and renames it in one step."""
        status = lstat_or_none(fd, entry.name)
        if status is not None:
            if not stat.S_ISDIR(status.st_mode):
                raise Skipped("something else is there that no snapshot contains")
            for below in self._reader.entries(entry.ref) if entry.ref != EMPTY_FOLDER else ():
                self._pending_additions.append(PathChange(ChangeType.ADDED, join_path(path, below.name), None, below))
            return
        if entry.ref == EMPTY_FOLDER or not self._may_add_all(path, entry):
            os.mkdir(entry.name, _OWNER, dir_fd=fd)
            self._modes[path] = entry.mode
            for below in self._reader.entries(entry.ref) if entry.ref != EMPTY_FOLDER else ():
                self._pending_additions.append(PathChange(ChangeType.ADDED, join_path(path, below.name), None, below))
            return
        staging = StagedFolder(self._root, self._reader, self._check)
        staging.make(fd, path, entry)
        self.written += staging.written
        self.failed += staging.failed

    def _may_add_all(self, path: bytes, entry: TreeEntry) -> bool:
        """Returns whether a new folder may be written with everything in it."""
        if self._may_write is allow_all:
            return True
        waiting = [(path, entry)]
        while waiting:
            path, entry = waiting.pop()
            for below in self._reader.entries(entry.ref):
                inside = join_path(path, below.name)
                if not self._may_write(inside):
                    return False
                if below.kind is EntryKind.FOLDER:
                    waiting.append((inside, below))
        return True

    # Modes

    def _set_mode(self, fd: int, change: PathChange) -> None:
        entry = change.after
        if entry is None:
            return
        if entry.kind is EntryKind.FOLDER:
            self._modes[change.path] = entry.mode
            return
        if entry.is_file:
            set_mode(fd, entry)
            self.written += 1

    def _apply_folder_mode(self, path: bytes, mode: int) -> None:
        try:
            fd = self._root.open(path)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                self._record_failure(path, error)
            return
        try:
            os.fchmod(fd, mode & FOLDER_MODE)
        except OSError as error:
            self._record_failure(path, error)
        finally:
            os.close(fd)
