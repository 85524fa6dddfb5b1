"""Forks: writable views of a snapshot, each with its own changes, over one frozen tree that they share.

    <folder>/trees/…              frozen trees, see frozen.py
    <folder>/forks/<id>/tree      the fork: an overlay that is mounted here, or a copy
    <folder>/forks/<id>/upper     what was changed in an overlay
    <folder>/forks/<id>/work      the kernel's own
    <folder>/lock                 held for the moment in which a fork appears or leftovers go

Once the tree is there a fork costs a few system calls, however many files it has. The kinds, the best first:

    MOUNTED     an overlay in our own mount namespace, for root, or for a user whose process has left for namespaces
                of its own. Any program in there finds it at `path`.
    HELD        an overlay in the namespaces of a helper process, for an ordinary user. This process reaches it by
                handle at `path`, which leads through /proc. A program that looks by path, such as a sandbox, is
                started with `enter_command` before its command and finds the fork at `mount_path`.
    SHARED      a copy whose files share their blocks with the tree.
    COPIED      a plain copy: as long as `cp -r` takes.

A Fork belongs to whoever made it, who holds a lock on its folder. `close()` takes it away with its changes. When its
owner is killed, a HELD one is gone at once, and the next Forks of the same folder takes away what is left of others.
Nothing done in a fork changes the tree, the snapshot or another fork.
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
"""Trees that stay although no fork uses them: the next fork of the same snapshot is quick."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ForkKind(StrEnum):
    MOUNTED = "mounted"
    HELD = "held"
    SHARED = "shared"
    COPIED = "copied"

    @property
    def is_overlay(self) -> bool:
        return self in {ForkKind.MOUNTED, ForkKind.HELD}


class Fork(Closeable):
    """One fork. Its files are reached at `path`; what that is to other programs, see the module."""

    def __init__(self, store: SnapshotStore, snapshot: Snapshot, base_tree: BaseTree, folder: str, lock: int) -> None:
        self.id = os.path.basename(folder)
        self.snapshot = snapshot
        self.kind = ForkKind.COPIED
        self.fallback_reason = ""
        """Why it is not an overlay, when it is not."""
        self.missing = base_tree.missing
        """What of the snapshot the fork lacks, with the reason: damaged objects, and what no snapshot can hold."""
        self._store = store
        self._base_tree = base_tree
        self._folder = folder
        self._lock = lock
        self._overlay_client: OverlayClient | None = None
        self._closing = threading.Lock()

    @property
    def mount_path(self) -> str:
        """Where it lies in the mount namespace it is in."""
        return os.path.join(self._folder, _TREE)

    @property
    def path(self) -> str:
        """Where this process finds it."""
        return self._overlay_client.host_path(self.mount_path) if self._overlay_client else self.mount_path

    @property
    def enter_command(self) -> tuple[str, ...]:
        """What goes before a command that is to find the fork at `mount_path`; nothing when every program does."""
        return self._overlay_client.enter_command if self._overlay_client else ()

    @property
    def is_closed(self) -> bool:
        return self._lock < 0

    def changes(self) -> list[ForkChange]:
        """What is not as it was in the snapshot, sorted by path."""
        if self.kind.is_overlay:
            return overlay_changes(self._base_tree.path, os.path.join(self._folder, _UPPER))
        return copy_changes(self._base_tree.path, self.mount_path)

    def take_snapshot(
        self, *, agent: str = "", reason: str = "", check: Callable[[], None] = no_check
    ) -> SnapshotResult:
        """A snapshot of the fork as it is now, which outlives it."""
        return self._store.create(self.path, agent=agent, reason=reason, check=check)

    def close(self) -> None:
        """Take it away, with every change that is in no snapshot."""
        with self._closing:
            if self.is_closed:
                return
            with contextlib.suppress(OSError):  # a holder that was killed has taken its mounts along
                if self._overlay_client is not None:
                    self._overlay_client.unmount(self.mount_path)
            _remove(self._folder)
            self._base_tree.close()
            os.close(self._lock)
            self._lock = -1

    # Making it

    def mount_here(self, *, as_user: bool) -> None:
        mount_overlay(*self._layers(), self.mount_path, as_user=as_user)
        _check_writable(self.mount_path)
        self.kind = ForkKind.MOUNTED

    def mount_in(self, client: OverlayClient) -> None:
        client.mount(*self._layers(), self.mount_path)
        _check_writable(client.host_path(self.mount_path))
        self._overlay_client = client
        self.kind = ForkKind.HELD

    def copy(self, reason: str, check: Callable[[], None]) -> None:
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
        # The topmost folder of the view is the upper one: it has the mode that the snapshot says.
        os.chmod(upper, self.snapshot.mode)
        return self._base_tree.path, upper, work


class Forks(Closeable):
    """The forks of one store's snapshots, in a folder outside every workspace. Safe to share between threads."""

    def __init__(
        self, folder: str, store: SnapshotStore, kinds: Sequence[ForkKind] = tuple(ForkKind), *, as_user: bool = False
    ) -> None:
        """Takes away what killed processes left there. `kinds`: the kinds that may be tried; a copy always may.

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
        """Write out the tree of a snapshot, so that its forks are quick."""
        self._open_base_tree(self._store.get(name, root), check).close()

    def fork(self, name: str, root: str | None = None, check: Callable[[], None] = no_check) -> Fork:
        """A fork of a snapshot. The first of each snapshot takes as long as a restore, unless it was prepared."""
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
        """A new fork's folder, and the lock on it: nobody sees the one without the other."""
        with self._exclusive_lock():
            folder = os.path.join(self._forks_folder, new_id()[:_ID_CHARS])
            os.mkdir(folder, 0o700)
            held = os.open(folder, _FOLDER)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, held

    @contextlib.contextmanager
    def _exclusive_lock(self) -> Generator[None]:
        with locked_file(os.path.join(self.folder, _LOCK), _LOCK_SECONDS, "the forks"):
            yield

    def _populate(self, fork: Fork, check: Callable[[], None]) -> None:
        why = "overlays were not wanted"
        for how in self._kinds:
            try:
                if how is ForkKind.MOUNTED:
                    fork.mount_here(as_user=self._as_user)
                    return
                if how is ForkKind.HELD:
                    fork.mount_in(self._overlay_client())
                    return
            except OSError as error:
                why = f"this machine lets us have no overlay: {error.strerror or error}"
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
        """Take away forks whose owner is gone."""
        with self._exclusive_lock():
            for name in os.listdir(self._forks_folder):
                with contextlib.suppress(OSError):  # somebody's
                    _remove_unlocked(os.path.join(self._forks_folder, name))


def _remove_unlocked(folder: str) -> None:
    held = os.open(folder, _FOLDER)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(held)


def _remove(folder: str) -> None:
    # Never through a mount: what is taken away there would be somebody's files.
    if _ensure_unmounted(os.path.join(folder, _TREE)):
        scratch.remove(folder)


def _ensure_unmounted(path: str) -> bool:
    if os.path.ismount(path):
        with contextlib.suppress(OSError):
            unmount(path)
    return not os.path.ismount(path)


def _check_writable(path: str) -> None:
    """The kernel mounts an overlay read-only where its upper layer does not do."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
