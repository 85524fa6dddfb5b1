"""Base trees: a snapshot written to disk once, read-only, shared by any number of forks.

    trees/lock            held while a tree is written, so that it is written once
    trees/<key>/tree      the files; the key is the digest of the root folder, with its mode
    trees/<key>/notes     the paths of the snapshot that could not be written, one a line

Each user of a tree holds a shared lock on its folder, which the kernel releases when the process dies. A tree that
nothing has locked may be removed by any process that gets an exclusive lock. A tree appears under its key only when
it is complete and on disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Generator

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolError
from toolyard.files.root_folder import RootFolder
from toolyard.files.temp_names import TEMPORARY_PREFIX, temporary_name
from toolyard.linux.overlay import sync_file_system
from toolyard.snapshots.restore.staged_dir import StagedFolder
from toolyard.snapshots.store.lock import locked_file, no_check
from toolyard.snapshots.store.models import Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry
from toolyard_runtime import scratch

_TREE, _NOTES, _LOCK = "tree", "notes", "lock"
_MAKING_SECONDS = 600.0
"""How long a fork waits for another process that is writing the same tree."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 5


class BaseTree(Closeable):
    """A base tree in use. It stays on disk at least until `close()`."""

    def __init__(self, folder: str, lock_fd: int) -> None:
        self.path = os.path.join(folder, _TREE)
        self._lock_fd = lock_fd
        try:
            with open(os.path.join(folder, _NOTES), encoding="utf-8", errors="surrogateescape") as file:
                self.missing = tuple(file.read().splitlines())
        except OSError as error:
            raise SystemFault(
                f"The base tree {folder} is damaged: {_NOTES}: {error.strerror}.",
                hint="Remove that folder: the next fork writes it out again.",
            ) from error

    def close(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


class BaseTrees:
    """The base trees in one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def get(self, snapshot: Snapshot) -> BaseTree | None:
        """Returns the base tree of a snapshot, or None if it has not been written."""
        folder = os.path.join(self._folder, _key(snapshot))
        for _ in range(_TRIES):
            try:
                lock_fd = os.open(folder, _FOLDER)
            except FileNotFoundError:
                return None
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_SH)
                if _is_at(folder, lock_fd):
                    # The mtime records the last use: `remove_unused` keeps the most recent ones.
                    os.utime(folder)
                    return BaseTree(folder, lock_fd)
            except BaseException:
                os.close(lock_fd)
                raise
            os.close(lock_fd)  # it was removed before we had the lock
        return None

    def build(self, snapshot: Snapshot, reader: ObjectReader, check: Callable[[], None]) -> BaseTree:
        """Returns the base tree of a snapshot and writes it first if needed, which takes as long as a restore."""
        with self._build_lock(_MAKING_SECONDS, check):
            found = self.get(snapshot)
            if found is None:
                self._write_out(snapshot, reader, check)
                found = self.get(snapshot)
            if found is None:
                raise FileNotFoundError(_key(snapshot))
            return found

    @contextlib.contextmanager
    def _build_lock(self, seconds: float, check: Callable[[], None] = no_check) -> Generator[None]:
        with locked_file(os.path.join(self._folder, _LOCK), seconds, "the trees of forks", check):
            yield

    def _write_out(self, snapshot: Snapshot, reader: ObjectReader, check: Callable[[], None]) -> None:
        place = os.path.join(self._folder, temporary_name())
        os.mkdir(place, 0o700)
        try:
            with RootFolder(place) as root:
                staging = StagedFolder(root, reader, check)
                name = _TREE.encode()
                staging.make(root.fd, name, TreeEntry(name, EntryKind.FOLDER, snapshot.mode, 0, snapshot.tree))
                with open(os.path.join(place, _NOTES), "w", encoding="utf-8", errors="surrogateescape") as file:
                    # Staged paths begin with the name of the tree folder; the notes leave it out.
                    file.writelines(
                        f"{os.fsdecode(note.path[len(name) + 1 :])}: {note.why}\n" for note in staging.failed
                    )
                sync_file_system(root.fd)
            os.rename(place, os.path.join(self._folder, _key(snapshot)))
        except BaseException:
            scratch.remove(place)
            raise

    def remove_unused(self, keep: int) -> None:
        """Removes unfinished trees, and unused trees except for the `keep` most recently used."""
        with (
            contextlib.suppress(ToolError),
            self._build_lock(0.0),
        ):  # a tree is being written: skip the cleanup this time
            names = [name for name in os.listdir(self._folder) if name != _LOCK]
            trees = [name for name in names if not name.startswith(TEMPORARY_PREFIX)]
            for name in set(names) - set(trees):
                scratch.remove(os.path.join(self._folder, name))
            for name in sorted(trees, key=self._last_used, reverse=True)[keep:]:
                with contextlib.suppress(OSError):  # in use
                    self._remove_tree(name)

    def _last_used(self, name: str) -> int:
        return os.stat(os.path.join(self._folder, name)).st_mtime_ns

    def _remove_tree(self, name: str) -> None:
        folder = os.path.join(self._folder, name)
        lock_fd = os.open(folder, _FOLDER)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = os.path.join(self._folder, temporary_name())
            os.rename(folder, gone)
            scratch.remove(gone)
        finally:
            os.close(lock_fd)


def _key(snapshot: Snapshot) -> str:
    return f"{snapshot.tree.hex()}-{snapshot.mode:o}"


def _is_at(folder: str, lock_fd: int) -> bool:
    try:
        there = os.stat(folder)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(lock_fd))
