"""Frozen trees: a snapshot written out once, which any number of forks stand on and nobody writes to.

    trees/lock            held while a tree is made, so that it is made once
    trees/<key>/tree      the files; the key is the digest of the topmost folder, with its mode
    trees/<key>/notes     what of the snapshot could not be written out, one a line

Who uses a tree holds a shared lock on its folder, which the kernel takes back when they die. A tree that nobody holds
may be taken away by anybody who gets the lock alone. It appears under its key when it is whole and on disk.
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
"""How long a fork waits for another process that is writing out the same tree."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 5


class BaseTree(Closeable):
    """A tree in use. It stays at least until `close()`."""

    def __init__(self, folder: str, lock_fd: int) -> None:
        self.path = os.path.join(folder, _TREE)
        self._lock_fd = lock_fd
        try:
            with open(os.path.join(folder, _NOTES), encoding="utf-8", errors="surrogateescape") as file:
                self.missing = tuple(file.read().splitlines())
        except OSError as error:
            raise SystemFault(
                f"The written-out snapshot {folder} is damaged: {_NOTES}: {error.strerror}.",
                hint="Remove that folder: the next fork writes it out again.",
            ) from error

    def close(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


class BaseTrees:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def get(self, snapshot: Snapshot) -> BaseTree | None:
        """The snapshot's tree, if it has been written out."""
        folder = os.path.join(self._folder, _key(snapshot))
        for _ in range(_TRIES):
            try:
                held = os.open(folder, _FOLDER)
            except FileNotFoundError:
                return None
            try:
                fcntl.flock(held, fcntl.LOCK_SH)
                if _is_at(folder, held):
                    # The newest use counts when room is made.
                    os.utime(folder)
                    return BaseTree(folder, held)
            except BaseException:
                os.close(held)
                raise
            os.close(held)  # it was taken away before we had the lock
        return None

    def build(self, snapshot: Snapshot, reader: ObjectReader, check: Callable[[], None]) -> BaseTree:
        """The same, written out now if it has not been: as long as a restore takes, once for each tree."""
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
                    # Their paths begin with the folder that everything is in here.
                    file.writelines(
                        f"{os.fsdecode(note.path[len(name) + 1 :])}: {note.why}\n" for note in staging.failed
                    )
                sync_file_system(root.fd)
            os.rename(place, os.path.join(self._folder, _key(snapshot)))
        except BaseException:
            scratch.remove(place)
            raise

    def remove_unused(self, keep: int) -> None:
        """Take away what was left half made, and trees that nobody uses but for the `keep` used last."""
        with contextlib.suppress(ToolError), self._build_lock(0.0):  # somebody is making one: another time will do
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
        held = os.open(folder, _FOLDER)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = os.path.join(self._folder, temporary_name())
            os.rename(folder, gone)
            scratch.remove(gone)
        finally:
            os.close(held)


def _key(snapshot: Snapshot) -> str:
    return f"{snapshot.tree.hex()}-{snapshot.mode:o}"


def _is_at(folder: str, held: int) -> bool:
    try:
        there = os.stat(folder)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(held))
