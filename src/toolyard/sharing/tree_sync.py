"""Making a tree of files what a snapshot says, with hard links for what another tree of ours has already.

Only the host writes these trees, and nobody looks at one while it is made. Files and links are never written to: they
are made, linked and taken away, so that a hard link can never carry a change from one tree to another.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from toolyard.files.root_folder import RootFolder, join
from toolyard.sharing.visibility import Filter
from toolyard.snapshots.restore.file_writer import make, pieces
from toolyard.snapshots.store.models import Damaged
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import Entry, Kind

_PLAIN = 0o777
"""Bits of a mode that come along: none that lend the owner's rights."""
_FOLDER_OWNER, _FILE_OWNER = 0o700, 0o400
"""What the host needs to make the next tree of this one."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tree that is there already, and the folder entry of the snapshot that it shows."""

    root: RootFolder
    top: Entry


@dataclass(frozen=True, slots=True)
class _Folder:
    path: bytes
    was: Entry | None
    """What the folder holds now; None when it is new."""
    now: Entry
    beside: Entry | None
    """The same folder in the tree that is linked from."""


class Weaver:
    def __init__(
        self, root: RootFolder, reader: ObjectReader, shown: Filter, source: Source | None, check: Callable[[], None]
    ) -> None:
        """`root` is the tree to be made. What `source` has is linked from there."""
        self._root = root
        self._reader = reader
        self._shown = shown
        self._source = source
        self._check = check
        self.written = self.linked = 0

    def run(self, was: Entry | None, now: Entry) -> None:
        """Make the tree, which shows `was`, show `now`. Raises OSError, what `check` raises, Damaged for a folder.

        A file whose stored bytes are damaged is left out.
        """
        waiting = [_Folder(b"", was, now, self._source.top if self._source else None)]
        while waiting:
            self._check()
            waiting += self._fill(waiting.pop())

    def _fill(self, folder: _Folder) -> list[_Folder]:
        """Make one folder right; those in it that are not yet are returned."""
        had, has = self._entries(folder.path, folder.was), self._entries(folder.path, folder.now)
        fd = self._root.open(folder.path)
        try:
            for name, entry in had.items():
                if name not in has or _kind(entry) != _kind(has[name]):
                    _remove(fd, entry)
            below: list[_Folder] = []
            missing: list[Entry] = []
            beside: dict[bytes, Entry] | None = None
            for name, entry in has.items():
                old = had.get(name)
                if old == entry:
                    continue
                if entry.kind is not Kind.FOLDER:
                    if old is not None and _kind(old) == _kind(entry):
                        _remove(fd, old)
                    missing.append(entry)
                    continue
                if beside is None:
                    beside = self._beside(folder)
                is_there = old is not None and old.kind is Kind.FOLDER
                inner = self._folder(fd, join(folder.path, name), old if is_there else None, entry)
                below.append(replace(inner, beside=beside.get(name)))
            if missing:
                self._place(fd, folder, missing, self._beside(folder) if beside is None else beside)
        finally:
            os.close(fd)
        return [inner for inner in below if inner.was is None or inner.was.ref != inner.now.ref]

    def _folder(self, fd: int, path: bytes, old: Entry | None, entry: Entry) -> _Folder:
        mode = entry.mode & _PLAIN | _FOLDER_OWNER
        if old is None:
            os.mkdir(entry.name, _FOLDER_OWNER, dir_fd=fd)
        if old is None or old.mode != entry.mode:
            os.chmod(entry.name, mode, dir_fd=fd)
        return _Folder(path, old, entry, None)

    def _beside(self, folder: _Folder) -> dict[bytes, Entry]:
        if folder.beside is None or folder.beside.kind is not Kind.FOLDER:
            return {}
        try:
            return self._entries(folder.path, folder.beside)
        except Damaged:  # nothing can be linked then, and all is written
            return {}

    def _entries(self, path: bytes, folder: Entry | None) -> dict[bytes, Entry]:
        if folder is None:
            return {}
        shows = self._shown.shows
        return {entry.name: entry for entry in self._reader.entries(folder.ref) if shows(path, entry)}

    def _place(self, fd: int, folder: _Folder, entries: list[Entry], beside: dict[bytes, Entry]) -> None:
        """Put files and links where nothing stands."""
        rest = self._link(fd, folder.path, entries, beside) if self._source is not None and beside else entries
        small: dict[bytes, list[Entry]] = defaultdict(list)
        for entry in rest:
            entry = entry._replace(mode=entry.mode & _PLAIN | _FILE_OWNER)
            if entry.kind is Kind.FILE:
                small[entry.ref].append(entry)
                continue
            with contextlib.suppress(Damaged):  # the rest can be shown all the same
                make(fd, entry.name, entry, pieces(self._reader, entry))
                self.written += 1
        for digest, data in self._reader.read_many(list(small)):
            if isinstance(data, Damaged):
                continue
            for entry in small[digest]:
                make(fd, entry.name, entry, ((0, data),) if entry.size else ())
                self.written += 1

    def _link(self, fd: int, path: bytes, entries: list[Entry], beside: dict[bytes, Entry]) -> list[Entry]:
        """Link what the other tree has. What is left has to be written."""
        assert self._source is not None  # noqa: S101 - for the type checker: the caller looked
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
                with contextlib.suppress(OSError):  # not there, too many links: it is written instead
                    os.link(entry.name, entry.name, src_dir_fd=there, dst_dir_fd=fd, follow_symlinks=False)
                    linked.add(entry.name)
        finally:
            os.close(there)
        self.linked += len(linked)
        return [entry for entry in entries if entry.name not in linked]


def _kind(entry: Entry) -> bool:
    """Files and links take each other's place; a folder's is another matter."""
    return entry.kind is Kind.FOLDER


def _remove(fd: int, entry: Entry) -> None:
    with contextlib.suppress(FileNotFoundError):
        if entry.kind is Kind.FOLDER:
            shutil.rmtree(os.fsdecode(entry.name), dir_fd=fd)
        else:
            os.unlink(entry.name, dir_fd=fd)
