"""Makes a file tree match a snapshot, with hard links to files that another published tree already has.

Only the host writes these trees, and nothing reads one while it is built. Existing files and links are never written
to, only created, linked and removed, so that a hard link cannot carry a change into another tree.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from toolyard.files.root_folder import RootFolder, join_path
from toolyard.sharing.visibility import VisibilityFilter
from toolyard.snapshots.restore.file_writer import data_pieces, write_entry
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_PERMISSION_BITS = 0o777
"""Mode bits that are copied: none that lend the owner's rights."""
_FOLDER_OWNER, _FILE_OWNER = 0o700, 0o400
"""Permissions that the host needs to turn this tree into the next one."""


@dataclass(frozen=True, slots=True)
class LinkSource:
    """An existing tree, and the folder entry of the snapshot that it shows."""

    root: RootFolder
    top: TreeEntry


@dataclass(frozen=True, slots=True)
class _FolderTask:
    """A folder that has to be synchronised."""

    path: bytes
    old: TreeEntry | None
    """The current contents; None for a new folder."""
    new: TreeEntry
    beside: TreeEntry | None
    """The same folder in the tree to link from."""


class TreeSync:
    """Updates one tree."""

    def __init__(
        self,
        root: RootFolder,
        reader: ObjectReader,
        visibility: VisibilityFilter,
        source: LinkSource | None,
        check: Callable[[], None],
    ) -> None:
        """`root` is the tree to update. Files that `source` has are linked from there."""
        self._root = root
        self._reader = reader
        self._visibility = visibility
        self._source = source
        self._check = check
        self.written = self.linked = 0

    def run(self, old: TreeEntry | None, new: TreeEntry) -> None:
        """Changes the tree from `old` to `new`. Raises OSError, what `check` raises, and Damaged for a folder.

        Files whose stored bytes are damaged are omitted.
        """
        waiting = [_FolderTask(b"", old, new, self._source.top if self._source else None)]
        while waiting:
            self._check()
            waiting += self._sync_folder(waiting.pop())

    def _sync_folder(self, folder: _FolderTask) -> list[_FolderTask]:
        """Synchronises one folder and returns its subfolders that still differ."""
        had, has = self._visible_entries(folder.path, folder.old), self._visible_entries(folder.path, folder.new)
        fd = self._root.open(folder.path)
        try:
            for name, entry in had.items():
                if name not in has or _is_folder(entry) != _is_folder(has[name]):
                    _remove_entry(fd, entry)
            below: list[_FolderTask] = []
            missing: list[TreeEntry] = []
            beside: dict[bytes, TreeEntry] | None = None
            for name, entry in has.items():
                old = had.get(name)
                if old == entry:
                    continue
                if entry.kind is not EntryKind.FOLDER:
                    if old is not None and _is_folder(old) == _is_folder(entry):
                        _remove_entry(fd, old)
                    missing.append(entry)
                    continue
                if beside is None:
                    beside = self._source_entries(folder)
                is_there = old is not None and old.kind is EntryKind.FOLDER
                inner = self._make_folder(fd, join_path(folder.path, name), old if is_there else None, entry)
                below.append(replace(inner, beside=beside.get(name)))
            if missing:
                self._write_entries(fd, folder, missing, self._source_entries(folder) if beside is None else beside)
        finally:
            os.close(fd)
        return [inner for inner in below if inner.old is None or inner.old.ref != inner.new.ref]

    def _make_folder(self, fd: int, path: bytes, old: TreeEntry | None, entry: TreeEntry) -> _FolderTask:
        mode = entry.mode & _PERMISSION_BITS | _FOLDER_OWNER
        if old is None:
            os.mkdir(entry.name, _FOLDER_OWNER, dir_fd=fd)
        if old is None or old.mode != entry.mode:
            os.chmod(entry.name, mode, dir_fd=fd)
        return _FolderTask(path, old, entry, None)

    def _source_entries(self, folder: _FolderTask) -> dict[bytes, TreeEntry]:
        if folder.beside is None or folder.beside.kind is not EntryKind.FOLDER:
            return {}
        try:
            return self._visible_entries(folder.path, folder.beside)
        except DamagedObjectError:  # then nothing is linked, and everything is written
            return {}

    def _visible_entries(self, path: bytes, folder: TreeEntry | None) -> dict[bytes, TreeEntry]:
        if folder is None:
            return {}
        shows = self._visibility.shows
        return {entry.name: entry for entry in self._reader.entries(folder.ref) if shows(path, entry)}

    def _write_entries(
        self, fd: int, folder: _FolderTask, entries: list[TreeEntry], beside: dict[bytes, TreeEntry]
    ) -> None:
        """Creates files and links that do not exist yet."""
        rest = (
            self._link_entries(fd, folder.path, entries, beside) if self._source is not None and beside else entries
        )
        small: dict[bytes, list[TreeEntry]] = defaultdict(list)
        for entry in rest:
            entry = entry._replace(mode=entry.mode & _PERMISSION_BITS | _FILE_OWNER)
            if entry.kind is EntryKind.FILE:
                small[entry.ref].append(entry)
                continue
            with contextlib.suppress(DamagedObjectError):  # the other files can still be shown
                write_entry(fd, entry.name, entry, data_pieces(self._reader, entry))
                self.written += 1
        for digest, data in self._reader.read_many(list(small)):
            if isinstance(data, DamagedObjectError):
                continue
            for entry in small[digest]:
                write_entry(fd, entry.name, entry, ((0, data),) if entry.size else ())
                self.written += 1

    def _link_entries(
        self, fd: int, path: bytes, entries: list[TreeEntry], beside: dict[bytes, TreeEntry]
    ) -> list[TreeEntry]:
        """Links files from the source tree. Returns the entries that have to be written."""
        assert self._source is not None  # noqa: S101 - for the type checker: the caller has checked
        same = [entry for entry in entries if entry.is_file and beside.get(entry.name) == entry]
        if not same:
            return entries
        try:
            there = self._source.root.open(path)
        except OSError:
            return entries
        linked: set[bytes] = set()
        try:
            for entry in same:
                with contextlib.suppress(OSError):  # missing, or too many links: it is written instead
                    os.link(entry.name, entry.name, src_dir_fd=there, dst_dir_fd=fd, follow_symlinks=False)
                    linked.add(entry.name)
        finally:
            os.close(there)
        self.linked += len(linked)
        return [entry for entry in entries if entry.name not in linked]


def _is_folder(entry: TreeEntry) -> bool:
    """Whether an entry is a folder. Files and links replace each other, folders do not."""
    return entry.kind is EntryKind.FOLDER


def _remove_entry(fd: int, entry: TreeEntry) -> None:
    with contextlib.suppress(FileNotFoundError):
        if entry.kind is EntryKind.FOLDER:
            shutil.rmtree(os.fsdecode(entry.name), dir_fd=fd)
        else:
            os.unlink(entry.name, dir_fd=fd)
