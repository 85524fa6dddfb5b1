"""Creates a new folder with all its content under a temporary name, then renames it in one step.

No other program uses the folder yet, so its files are simply written, several folders in parallel. The bytes of a
folder's files are read in pack order, which is the order in which they were stored.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from toolyard.files.root_folder import RootFolder, join_path, split_path
from toolyard.files.temp_names import temporary_name
from toolyard.linux.renameat2 import rename_without_replacing
from toolyard.snapshots.restore.file_writer import (
    FOLDER_MODE,
    Skipped,
    data_pieces,
    not_stored_reason,
    write_entry,
    write_small_file,
)
from toolyard.snapshots.restore.temp_cleanup import remove_folder
from toolyard.snapshots.store.models import DamagedObjectError, PathNote
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_WORKING_MODE = 0o700
_WORKERS = 2


class StagedFolder:
    """Writes one new folder; see the module."""

    def __init__(self, root: RootFolder, reader: ObjectReader, check: Callable[[], None]) -> None:
        self._root = root
        self._reader = reader
        self._check = check
        self._folders: list[tuple[bytes, bytes, TreeEntry]] = []
        self._count_lock = threading.Lock()
        self.written = 0
        self.failed: list[PathNote] = []

    def make(self, fd: int, path: bytes, entry: TreeEntry) -> None:
        """Creates the folder `entry` at `path`, whose parent is open. Raises Skipped if something appeared there."""
        folder, _ = split_path(path)
        temporary = temporary_name()
        top = join_path(folder, temporary.encode())
        self._folders = [(top, path, entry)]
        try:
            os.mkdir(temporary, _WORKING_MODE, dir_fd=fd)
            below = self._fill(top, path, entry)
            if below:
                self._fill_all(below)
            self._set_modes()
            rename_without_replacing(temporary, fd, os.fsdecode(entry.name), fd)
        except BaseException as error:
            with contextlib.suppress(OSError):
                remove_folder(self._root, top)
            if isinstance(error, FileExistsError):
                raise Skipped("something else appeared there") from None
            raise

    def _fill_all(self, folders: Sequence[tuple[bytes, bytes, TreeEntry]]) -> None:
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="toolyard-restore") as pool:
            running: set[Future[list[tuple[bytes, bytes, TreeEntry]]]] = set()
            try:
                while folders or running:
                    self._check()
                    self._folders += folders
                    running |= {pool.submit(self._fill, *one) for one in folders}
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    folders = [below for one in done for below in one.result()]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _fill(self, staged_path: bytes, path: bytes, entry: TreeEntry) -> list[tuple[bytes, bytes, TreeEntry]]:
        """Writes the files of a folder and creates its subfolders; returns those, still empty."""
        try:
            entries = self._reader.entries(entry.ref)
        except DamagedObjectError as damage:
            self.failed.append(PathNote(path, damage.message))
            return []
        below: list[tuple[bytes, bytes, TreeEntry]] = []
        written = 0
        small: dict[bytes, list[TreeEntry]] = defaultdict(list)
        fd = self._root.open(staged_path)
        try:
            for one in entries:
                if one.kind is EntryKind.FOLDER:
                    os.mkdir(one.name, _WORKING_MODE, dir_fd=fd)
                    below.append((join_path(staged_path, one.name), join_path(path, one.name), one))
                elif one.kind is EntryKind.FILE:
                    small[one.ref].append(one)
                elif one.kind is EntryKind.SKIPPED:
                    self.failed.append(PathNote(join_path(path, one.name), not_stored_reason(one)))
                else:
                    written += self._make_other(fd, path, one)
            written += self._make_small(fd, path, small)
        finally:
            os.close(fd)
        with self._count_lock:
            self.written += written
        return below

    def _make_other(self, fd: int, path: bytes, entry: TreeEntry) -> int:
        try:
            write_entry(fd, entry.name, entry, data_pieces(self._reader, entry))
        except DamagedObjectError as damage:
            self.failed.append(PathNote(join_path(path, entry.name), damage.message))
            return 0
        return 1

    def _make_small(self, fd: int, path: bytes, files: dict[bytes, list[TreeEntry]]) -> int:
        written = 0
        for digest, data in self._reader.read_many(list(files)):
            for entry in files[digest]:
                if isinstance(data, DamagedObjectError):
                    self.failed.append(PathNote(join_path(path, entry.name), data.message))
                    continue
                write_small_file(fd, entry.name, entry, data)
                written += 1
        return written

    def _set_modes(self) -> None:
        for place, _, entry in reversed(self._folders):
            fd = self._root.open(place)
            try:
                os.fchmod(fd, entry.mode & FOLDER_MODE)
            finally:
                os.close(fd)
