"""Forks: writable views of a snapshot, each with its own changes, over one shared read-only base tree.

    <folder>/trees/…              base trees, see base_trees.py
    <folder>/forks/<id>/tree      the fork: an overlay that is mounted here, or a copy
    <folder>/forks/<id>/upper     the changed files of an overlay
    <folder>/forks/<id>/work      the kernel's own work folder
    <folder>/lock                 held while a fork is created or leftovers are removed

Once the base tree exists, a fork costs a few system calls, however many files it has. The kinds, best first:

    MOUNTED     an overlay in our own mount namespace: for root, or for a process in namespaces of its own.
                Every program in there finds it at `path`.
    HELD        an overlay in the namespaces of a helper process, for an ordinary user. This process reaches it by
                handle at `path`, which leads through /proc. A program that needs a plain path, such as a sandbox, is
                started with `enter_command` before its command and finds the fork at `mount_path`.
    SHARED      a copy whose files share their blocks with the tree.
    COPIED      a plain copy: takes as long as `cp -r`.

The creator of a Fork owns it and holds a lock on its folder. `close()` removes it with its changes. When its owner is
killed, a HELD fork disappears at once, and the next Forks of the same folder removes what others left behind. Nothing
done in a fork changes the base tree, the snapshot or another fork.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Generator, Sequence
from enum import StrEnum

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault
from toolyard.core.ids import new_id
from toolyard.linux.overlay import mount_overlay, unmount
from toolyard.snapshots import Snapshot, SnapshotResult, SnapshotStore
from toolyard.snapshots.forks.base_trees import BaseTree, BaseTrees
from toolyard.snapshots.forks.changes import ForkChange, copy_changes, overlay_changes
from toolyard.snapshots.forks.copy import copy_tree
from toolyard.snapshots.forks.overlay_client import OverlayClient
from toolyard.snapshots.store.lock import locked_file, no_check
from toolyard.storage.state_folder import ensure_state_dir
from toolyard_runtime import scratch

_TREES, _FORKS, _LOCK = "trees", "forks", "lock"
_TREE, _UPPER, _WORK = "tree", "upper", "work"
_ID_CHARS = 12
_LOCK_SECONDS = 30.0
_KEPT_TREES = 2
"""Base trees that stay although no fork uses them: the next fork of the same snapshot is quick."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ForkKind(StrEnum):
    """How a fork is made; see the module."""

    MOUNTED = "mounted"
    HELD = "held"
    SHARED = "shared"
    COPIED = "copied"

    @property
    def is_overlay(self) -> bool:
        return self in {ForkKind.MOUNTED, ForkKind.HELD}


class Fork(Closeable):
    """One fork. Its files are reached at `path`; the module explains where other programs find it."""

    def __init__(self, store: SnapshotStore, snapshot: Snapshot, base_tree: BaseTree, folder: str, lock: int) -> None:
        self.id = os.path.basename(folder)
        self.snapshot = snapshot
        self.kind = ForkKind.COPIED
        self.fallback_reason = ""
        """Why the fork is not an overlay; empty when it is one."""
        self.missing = base_tree.missing
        """Paths of the snapshot that the fork lacks, with the reason: damaged objects, and files that no snapshot can
        contain.
        """
        self._store = store
        self._base_tree = base_tree
        self._folder = folder
        self._lock = lock
        self._overlay_client: OverlayClient | None = None
        self._closing = threading.Lock()

    @property
    def mount_path(self) -> str:
        """Returns the path of the fork in the mount namespace that it is mounted in."""
        return os.path.join(self._folder, _TREE)

    @property
    def path(self) -> str:
        """Returns the path at which this process finds the fork."""
        return self._overlay_client.host_path(self.mount_path) if self._overlay_client else self.mount_path

    @property
    def enter_command(self) -> tuple[str, ...]:
        """Returns the command prefix that lets a program find the fork at `mount_path`; empty if none is needed."""
        return self._overlay_client.enter_command if self._overlay_client else ()

    @property
    def is_closed(self) -> bool:
        return self._lock < 0

    def changes(self) -> list[ForkChange]:
        """Returns the changes since the snapshot, sorted by path."""
        if self.kind.is_overlay:
            return overlay_changes(self._base_tree.path, os.path.join(self._folder, _UPPER))
        return copy_changes(self._base_tree.path, self.mount_path)

    def take_snapshot(
        self, *, agent: str = "", reason: str = "", check: Callable[[], None] = no_check
    ) -> SnapshotResult:
        """Takes a snapshot of the fork's current state, which outlives the fork."""
        return self._store.create(self.path, agent=agent, reason=reason, check=check)

    def close(self) -> None:
        """Removes the fork, with every change that is in no snapshot."""
        with self._closing:
            if self.is_closed:
                return
            with contextlib.suppress(OSError):  # a killed helper process took its mounts with it
                if self._overlay_client is not None:
                    self._overlay_client.unmount(self.mount_path)
            _remove(self._folder)
            self._base_tree.close()
            os.close(self._lock)
            self._lock = -1

    # Creation

    def mount_here(self, *, as_user: bool) -> None:
        """Mounts the fork as an overlay in this process's mount namespace. Raises OSError."""
        mount_overlay(*self._layers(), self.mount_path, as_user=as_user)
        _check_writable(self.mount_path)
        self.kind = ForkKind.MOUNTED

    def mount_in(self, client: OverlayClient) -> None:
        """Mounts the fork as an overlay in the helper process. Raises OSError."""
        client.mount(*self._layers(), self.mount_path)
        _check_writable(client.host_path(self.mount_path))
        self._overlay_client = client
        self.kind = ForkKind.HELD

    def copy(self, reason: str, check: Callable[[], None]) -> None:
        """Fills the fork with a copy of the base tree."""
        if not _ensure_unmounted(self.mount_path):
            raise SystemFault(f"{self.mount_path} cannot be unmounted.", hint="Unmount it, then try again.")
        for name in (_UPPER, _WORK, _TREE):
            shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)
        self.kind = ForkKind.SHARED if copy_tree(self._base_tree.path, self.mount_path, check) else ForkKind.COPIED
        self.fallback_reason = reason

    def _layers(self) -> tuple[str, str, str]:
        upper, work = os.path.join(self._folder, _UPPER), os.path.join(self._folder, _WORK)
        for folder in (upper, work, self.mount_path):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        # The root of an overlay takes its mode from the upper folder.
        os.chmod(upper, self.snapshot.mode)
        return self._base_tree.path, upper, work


class Forks(Closeable):
    """The forks of one store's snapshots, in a folder outside every workspace. Safe to share between threads."""

    def __init__(
        self, folder: str, store: SnapshotStore, kinds: Sequence[ForkKind] = tuple(ForkKind), *, as_user: bool = False
    ) -> None:
        """Removes what killed processes left in the folder. `kinds` are the kinds to try; a copy is always allowed.

        `as_user`: this process is in a user namespace of its own, where it may mount without being root.
        """
        self.folder = os.path.realpath(ensure_state_dir(os.path.abspath(folder)))
        self._store = store
        self._kinds = kinds
        self._as_user = as_user
        self._trees = BaseTrees(os.path.join(self.folder, _TREES))
        self._forks_folder = os.path.join(self.folder, _FORKS)
        os.makedirs(self._forks_folder, mode=0o700, exist_ok=True)
        self._using = threading.Lock()
        self._open: list[Fork] = []
        self._client: OverlayClient | None = None
        self._sweep()
        self._trees.remove_unused(_KEPT_TREES)

    def prepare(self, name: str, root: str | None = None, check: Callable[[], None] = no_check) -> None:
        """Writes the base tree of a snapshot, so that its forks are quick."""
        self._open_base_tree(self._store.get(name, root), check).close()

    def fork(self, name: str, root: str | None = None, check: Callable[[], None] = no_check) -> Fork:
        """Creates a fork of a snapshot. The first one takes as long as a restore, unless it was prepared."""
        snapshot = self._store.get(name, root)
        frozen = self._open_base_tree(snapshot, check)
        try:
            fork = Fork(self._store, snapshot, frozen, *self._new_folder())
        except BaseException:
            frozen.close()
            raise
        try:
            self._populate(fork, check)
        except BaseException:
            fork.close()
            raise
        with self._using:
            self._open = [one for one in self._open if not one.is_closed] + [fork]
        return fork

    def close(self) -> None:
        with self._using:
            for fork in self._open:
                fork.close()
            self._open.clear()
            self._close_overlay_client()

    def _open_base_tree(self, snapshot: Snapshot, check: Callable[[], None]) -> BaseTree:
        found = self._trees.get(snapshot)
        if found is None:
            with self._store.reader() as reader:
                found = self._trees.build(snapshot, reader, check)
        return found

    def _new_folder(self) -> tuple[str, int]:
        """Creates the folder of a new fork, already locked: no other process sees it without its lock."""
        with self._exclusive_lock():
            folder = os.path.join(self._forks_folder, new_id()[:_ID_CHARS])
            os.mkdir(folder, 0o700)
            lock_fd = os.open(folder, _FOLDER)
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, lock_fd

    @contextlib.contextmanager
    def _exclusive_lock(self) -> Generator[None]:
        with locked_file(os.path.join(self.folder, _LOCK), _LOCK_SECONDS, "the forks"):
            yield

    def _populate(self, fork: Fork, check: Callable[[], None]) -> None:
        why = "overlays are disabled"
        for how in self._kinds:
            try:
                if how is ForkKind.MOUNTED:
                    fork.mount_here(as_user=self._as_user)
                    return
                if how is ForkKind.HELD:
                    fork.mount_in(self._overlay_client())
                    return
            except OSError as error:
                why = f"this machine does not allow overlay mounts: {error.strerror or error}"
        fork.copy(why, check)

    def _overlay_client(self) -> OverlayClient:
        with self._using:
            if self._client is None or not self._client.is_alive:
                self._close_overlay_client()
                self._client = OverlayClient()
            return self._client

    def _close_overlay_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _sweep(self) -> None:
        """Removes forks whose owner has exited."""
        with self._exclusive_lock():
            for name in os.listdir(self._forks_folder):
                with contextlib.suppress(OSError):  # in use
                    _remove_unlocked(os.path.join(self._forks_folder, name))


def _remove_unlocked(folder: str) -> None:
    lock_fd = os.open(folder, _FOLDER)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock_fd)


def _remove(folder: str) -> None:
    # Never through a mount: that would delete files outside the fork.
    if _ensure_unmounted(os.path.join(folder, _TREE)):
        scratch.remove(folder)


def _ensure_unmounted(path: str) -> bool:
    if os.path.ismount(path):
        with contextlib.suppress(OSError):
            unmount(path)
    return not os.path.ismount(path)


def _check_writable(path: str) -> None:
    """Raises OSError if the overlay is read-only: the kernel mounts it so where the upper layer is unsuitable."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
