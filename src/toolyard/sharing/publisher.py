"""Publishes the tree of an agent's snapshot as `<shared>/<agent>`, complete and in one step.

    <shared>/<agent>/             the published tree, with its manifest; read-only in sandboxes
    <dir>/.<shared>.trees/<agent>/<snapshot>/    former trees, not visible in sandboxes
    <state>/sharing/<agent>.lock  held while a process publishes for that agent

Two former trees stay for readers that are still inside them. The older one becomes the next tree: only differences
are written, and unchanged files are linked from the current tree. A killed process leaves either the old tree or the
new one in place; the next one removes its leftovers. Nothing is ever linked to the agent's own files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from stat import S_ISDIR

from toolyard.config.snapshots import BASELINE_REASON
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import SystemFault
from toolyard.files.os_errors import printable_name as name_shown
from toolyard.files.root_folder import RootFolder
from toolyard.files.temp_names import TEMPORARY_PREFIX, temporary_name
from toolyard.linux.renameat2 import exchange, rename_without_replacing
from toolyard.sharing.manifest import (
    MANIFEST_FILE,
    MAX_PATHS,
    MAX_STEPS,
    PublicationManifest,
    PublicationStep,
    read_manifest,
    write_manifest,
)
from toolyard.sharing.tree_sync import LinkSource, TreeSync
from toolyard.sharing.visibility import VisibilityFilter
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.diff.tree_diff import compare_trees
from toolyard.snapshots.service.change_authors import open_recorded_authors
from toolyard.snapshots.snapshot_store import SnapshotStore
from toolyard.snapshots.store.lock import locked_file, no_check
from toolyard.snapshots.store.models import DamagedObjectError, Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.workspace.layout import SHARING, previous_trees_folder

_LOCK_SECONDS = 120.0
_KEPT_TREES = 2
"""Former trees to keep."""
_FOLDER_MODE = 0o700
"""Mode of the folders around the trees: a world-readable file may come from a private folder."""
_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}
_MAX_CHANGES = 100_000
"""Changes that are counted for a manifest."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of publishing."""

    manifest: PublicationManifest
    changed: bool
    """False if this snapshot, or a newer one, was already published."""
    written: int = 0
    linked: int = 0


class Publisher:
    """Publishes to one shared folder. Several publishers, in any number of processes, may run at once."""

    def __init__(self, shared: str, state: str, store: SnapshotStore) -> None:
        self._shared = shared
        self._state = os.path.join(state, SHARING)
        self._store = store

    def publish(
        self, agent: str, snapshot: Snapshot, visibility: VisibilityFilter, check: Callable[[], None] = no_check
    ) -> Publication:
        """Shows a snapshot of `agent` to its peers, unless a newer one is shown."""
        name = folder_name(agent)
        lock = os.path.join(ensure_state_dir(self._state), f"{name}.lock")
        try:
            with locked_file(lock, _LOCK_SECONDS, f"what {agent} shares", check):
                return self._publish(name, agent, snapshot, visibility, check)
        except OSError as error:
            raise SystemFault(
                f"The work of {agent} cannot be shared: {error.strerror or error}.",
                hint="Peers still see what was shared before. Free some space, or check the folder's permissions.",
            ) from error

    def _publish(
        self, name: str, agent: str, snapshot: Snapshot, visibility: VisibilityFilter, check: Callable[[], None]
    ) -> Publication:
        trees = os.path.join(former_trees_folder(self._shared), name)
        os.makedirs(trees, mode=0o700, exist_ok=True)
        spares = _prune_trees(trees, visibility.stamp)
        place = os.path.join(self._shared, name)
        now = read_manifest(place)
        if now is not None and not self._needs_publishing(now, snapshot, visibility):
            return Publication(now, changed=False)
        if now is None:
            _require_published_folder(place)
        with contextlib.ExitStack() as closing:
            reader = closing.enter_context(self._store.reader())
            source = None
            if now is not None and now.stamp == visibility.stamp:
                source = LinkSource(closing.enter_context(RootFolder(place)), _root_entry(now))
            temporary, was = self._prepare_folder(trees, spares, reader)
            with RootFolder(os.path.join(trees, temporary)) as root:
                weaver = TreeSync(root, reader, visibility, source, check)
                weaver.run(was, root_entry(snapshot))
                note = self._build_manifest(agent, snapshot, visibility, reader, now)
                os.fchmod(root.fd, snapshot.mode & 0o777 | _FOLDER_MODE)
                write_manifest(root.fd, note)
        _switch_tree(trees, temporary, self._shared, name)
        _prune_trees(trees, visibility.stamp)
        return Publication(note, changed=True, written=weaver.written, linked=weaver.linked)

    def _needs_publishing(self, now: PublicationManifest, snapshot: Snapshot, visibility: VisibilityFilter) -> bool:
        if now.stamp != visibility.stamp:
            return True
        if now.snapshot == snapshot.id or now.tree == snapshot.tree:
            return now.mode != snapshot.mode
        # The store may have been recreated; then the numbers are not comparable.
        is_known = any(known.id == now.snapshot for known in self._store.list(snapshot.root))
        return not is_known or now.number < snapshot.number

    def _prepare_folder(
        self, trees: str, spares: list[tuple[str, PublicationManifest]], reader: ObjectReader
    ) -> tuple[str, TreeEntry | None]:
        """Returns a folder for the new tree: the oldest spare tree with its contents, or a new folder."""
        temporary = temporary_name()
        path = os.path.join(trees, temporary)
        if len(spares) >= _KEPT_TREES and _has_tree(reader, spares[0][1].tree):
            os.rename(os.path.join(trees, spares[0][0]), path)
            os.unlink(os.path.join(path, MANIFEST_FILE))  # without its manifest it no longer counts as complete
            return temporary, _root_entry(spares[0][1])
        os.mkdir(path, _FOLDER_MODE)
        return temporary, None

    def _build_manifest(
        self,
        agent: str,
        snapshot: Snapshot,
        visibility: VisibilityFilter,
        reader: ObjectReader,
        now: PublicationManifest | None,
    ) -> PublicationManifest:
        steps = now.steps if now is not None else ()
        step = PublicationStep(snapshot.id, None)
        with contextlib.suppress(DamagedObjectError):  # the previous snapshot is gone, so the changes are unknown
            changed = islice(self._changed_paths(agent, snapshot, visibility, reader, now), _MAX_CHANGES)
            # Agents choose file names, and others read them: no name may imitate a line of ours.
            listed = [name_shown(os.fsdecode(path)) for path in dict.fromkeys(changed)]
            step = PublicationStep(snapshot.id, len(listed), tuple(listed[:MAX_PATHS]))
        return PublicationManifest(
            *(agent, snapshot.id, snapshot.number, snapshot.time_ns, snapshot.tree, snapshot.mode, visibility.stamp),
            (*steps, step)[-MAX_STEPS:],
        )

    def _changed_paths(
        self,
        agent: str,
        snapshot: Snapshot,
        visibility: VisibilityFilter,
        reader: ObjectReader,
        now: PublicationManifest | None,
    ) -> Iterator[bytes]:
        """Yields the paths that the agent changed since it last published. Raises Damaged."""
        top, since_ns, number = (_root_entry(now), now.time_ns, now.number) if now is not None else (None, 0, 0)
        if now is None and snapshot.reason == BASELINE_REASON:
            return  # everything existed before the agent changed anything
        with open_recorded_authors(self._state) as authors:
            if authors is None or not authors.has_others(snapshot.root, agent):
                yield from _changed_files(reader, top, root_entry(snapshot), visibility)
                return
            snapshots = [
                later for later in self._store.list(snapshot.root) if number < later.number <= snapshot.number
            ]
            for later in sorted(snapshots, key=lambda item: item.number):
                interval = authors.interval(later.root, since_ns, later.time_ns)
                changed = _changed_files(reader, top, root_entry(later), visibility)
                yield from (path for path in changed if agent in interval.authors_of(path))
                top, since_ns = root_entry(later), later.time_ns


def _changed_files(
    reader: ObjectReader, old: TreeEntry | None, new: TreeEntry, visibility: VisibilityFilter
) -> Iterator[bytes]:
    """Yields the files and links that differ. Raises Damaged if a side is no longer stored."""
    for change in compare_trees(reader, reader, (old, new)):
        entry = change.after or change.before
        if (
            entry is None
            or entry.kind in {EntryKind.FOLDER, EntryKind.SKIPPED}
            or not visibility.shows_path(change.path)
        ):
            continue
        folder, _, _ = change.path.rpartition(b"/")
        if folder or visibility.shows(b"", entry):
            yield change.path


def former_trees_folder(shared: str) -> str:
    """Returns the folder for former trees: beside the shared folder, or inside if that is a separate file system."""
    beside = previous_trees_folder(shared)
    os.makedirs(shared, mode=_FOLDER_MODE, exist_ok=True)
    try:
        os.makedirs(beside, mode=0o700, exist_ok=True)
        status = os.stat(beside, follow_symlinks=False)
        # In a world-writable folder, another user may have created it first.
        if status.st_dev == os.stat(shared).st_dev and status.st_uid == os.geteuid() and S_ISDIR(status.st_mode):
            return beside
    except OSError:
        pass
    inside = os.path.join(shared, f"{TEMPORARY_PREFIX}trees")
    os.makedirs(inside, mode=0o700, exist_ok=True)
    return inside


def _require_published_folder(place: str) -> None:
    """Raises SystemFault if the folder holds files that were not published here, to avoid replacing them.

    An unreadable manifest still counts as ours: after a power failure its content may be missing.
    """
    try:
        names = os.listdir(place)
        is_free = not names or MANIFEST_FILE in names
    except FileNotFoundError:
        return
    except NotADirectoryError:
        is_free = False
    if not is_free:
        raise SystemFault(
            f"{place} contains files that sharing did not put there.",
            hint="Move them away: peers see the agent's work in that folder.",
        )


def _root_entry(note: PublicationManifest) -> TreeEntry:
    return TreeEntry(b"", EntryKind.FOLDER, note.mode, 0, note.tree)


def _has_tree(reader: ObjectReader, tree: bytes) -> bool:
    try:
        reader.entries(tree)
    except DamagedObjectError:
        return False
    return True


def _prune_trees(trees: str, stamp: str) -> list[tuple[str, PublicationManifest]]:
    """Removes superfluous former trees and returns the others, the oldest first.

    Leftovers of killed processes, and trees of other visibility rules, are removed as well.
    """
    found: list[tuple[str, PublicationManifest]] = []
    for name in os.listdir(trees):
        path = os.path.join(trees, name)
        note = read_manifest(path)
        if note is None or note.stamp != stamp:
            shutil.rmtree(path)
            continue
        if name != note.snapshot:  # complete, but not yet renamed
            try:
                os.rename(path, os.path.join(trees, note.snapshot))
            except OSError:  # the name is taken: one of the two is enough
                shutil.rmtree(path)
                continue
        found.append((note.snapshot, note))
    found.sort(key=lambda pair: pair[1].number)
    for name, _ in found[:-_KEPT_TREES]:
        shutil.rmtree(os.path.join(trees, name))
    return found[-_KEPT_TREES:]


def _switch_tree(trees: str, temporary: str, shared: str, name: str) -> None:
    """Puts the new tree in place. The former one stays under the temporary name."""
    here = os.open(trees, _OPEN_FOLDER_FLAGS)
    try:
        there = os.open(shared, _OPEN_FOLDER_FLAGS)
        try:
            _rename_or_exchange(temporary, here, name, there)
        finally:
            os.close(there)
    finally:
        os.close(here)


def _rename_or_exchange(temporary: str, here: int, name: str, there: int) -> None:
    try:
        rename_without_replacing(temporary, here, name, there)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
    else:
        return
    try:
        exchange(temporary, name, here, there)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # The file system cannot exchange names: for a moment nothing is published.
        former = temporary_name()
        os.rename(name, former, src_dir_fd=there, dst_dir_fd=here)
        os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=there)
