"""Publishing: the tree of an agent's snapshot becomes `<shared>/<agent>`, whole and in one step.

    <shared>/<agent>/             what is published now, with a note (see notes.py); sandboxes show it read-only
    <dir>/.<shared>.trees/<agent>/<snapshot>/    what was published before, where sandboxes do not look
    <state>/sharing/<agent>.lock  held by whoever publishes for that agent

Two former trees stay, for readers that stand in them. The older one becomes the next tree: only what differs is
touched, and what the present tree has is linked. A process that is killed leaves the old tree or the new one
in place; what it was making is removed by the next. Nothing is ever linked to the agent's own files.
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
"""Former trees that stay."""
_FOLDER_MODE = 0o700
"""Of the folders around the trees: a file for anybody may come from a folder that nobody else may enter."""
_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}
_MAX_CHANGES = 100_000
"""Changes that are counted for a note."""


@dataclass(frozen=True, slots=True)
class Publication:
    manifest: PublicationManifest
    changed: bool
    """False when this, or something newer, was published already."""
    written: int = 0
    linked: int = 0


class Publisher:
    """For one shared folder. Several, in any number of processes, may publish at once."""

    def __init__(self, shared: str, state: str, store: SnapshotStore) -> None:
        self._shared = shared
        self._state = os.path.join(state, SHARING)
        self._store = store

    def publish(
        self, agent: str, snapshot: Snapshot, visibility: VisibilityFilter, check: Callable[[], None] = no_check
    ) -> Publication:
        """Show a snapshot of `agent` to its peers, unless a newer one is shown."""
        name = folder_name(agent)
        lock = os.path.join(ensure_state_dir(self._state), f"{name}.lock")
        try:
            with locked_file(lock, _LOCK_SECONDS, f"what {agent} shares", check):
                return self._publish(name, agent, snapshot, visibility, check)
        except OSError as error:
            raise SystemFault(
                f"The work of {agent} cannot be shared: {error.strerror or error}.",
                hint="Peers still see what was shared before. Free some space, or look at the folder's rights.",
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
        # Of a store that was begun anew the numbers mean nothing.
        is_known = any(known.id == now.snapshot for known in self._store.list(snapshot.root))
        return not is_known or now.number < snapshot.number

    def _prepare_folder(
        self, trees: str, spares: list[tuple[str, PublicationManifest]], reader: ObjectReader
    ) -> tuple[str, TreeEntry | None]:
        """A folder to make the tree in: the oldest spare one with what it holds, or a new one."""
        temporary = temporary_name()
        path = os.path.join(trees, temporary)
        if len(spares) >= _KEPT_TREES and _has_tree(reader, spares[0][1].tree):
            os.rename(os.path.join(trees, spares[0][0]), path)
            os.unlink(os.path.join(path, MANIFEST_FILE))  # from here on it is no whole tree any more
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
        with contextlib.suppress(
            DamagedObjectError
        ):  # the snapshot that was shown is gone: nobody can tell what changed
            changed = islice(self._changed_paths(agent, snapshot, visibility, reader, now), _MAX_CHANGES)
            # Agents choose names, and these are told to others: nothing in them may pass for a line of ours.
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
        """What the agent changed since it last published. Raises Damaged."""
        top, since_ns, number = (_root_entry(now), now.time_ns, now.number) if now is not None else (None, 0, 0)
        if now is None and snapshot.reason == BASELINE_REASON:
            return  # all of it was there before the agent changed anything
        with open_recorded_authors(self._state) as authors:
            if authors is None or not authors.has_others(snapshot.root, agent):
                yield from _changed_files(reader, top, root_entry(snapshot), visibility)
                return
            snapshots = [each for each in self._store.list(snapshot.root) if number < each.number <= snapshot.number]
            for each in sorted(snapshots, key=lambda one: one.number):
                interval = authors.interval(each.root, since_ns, each.time_ns)
                changed = _changed_files(reader, top, root_entry(each), visibility)
                yield from (path for path in changed if agent in interval.authors_of(path))
                top, since_ns = root_entry(each), each.time_ns


def _changed_files(
    reader: ObjectReader, old: TreeEntry | None, new: TreeEntry, visibility: VisibilityFilter
) -> Iterator[bytes]:
    """Files and links that differ. Raises Damaged where a side is no longer held."""
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
    """Where former trees are kept: beside the shared folder, or in it where that is a disk of its own."""
    beside = previous_trees_folder(shared)
    os.makedirs(shared, mode=_FOLDER_MODE, exist_ok=True)
    try:
        os.makedirs(beside, mode=0o700, exist_ok=True)
        status = os.stat(beside, follow_symlinks=False)
        # One that somebody else made first, in a folder that all may write, is theirs.
        if status.st_dev == os.stat(shared).st_dev and status.st_uid == os.geteuid() and S_ISDIR(status.st_mode):
            return beside
    except OSError:
        pass
    inside = os.path.join(shared, f"{TEMPORARY_PREFIX}trees")
    os.makedirs(inside, mode=0o700, exist_ok=True)
    return inside


def _require_published_folder(place: str) -> None:
    """What stands there without a note of ours is somebody's own, and not to be taken away.

    A note that cannot be understood is ours all the same: the power may have gone before it was on disk.
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
            f"{place} holds something that was not put there by sharing.",
            hint="Move it away: the agent's work is shown to its peers at that place.",
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
    """The former trees that stay, the oldest first.

    What else is in there was left by somebody who was killed, or may show what is not to be shown any more.
    """
    found: list[tuple[str, PublicationManifest]] = []
    for name in os.listdir(trees):
        path = os.path.join(trees, name)
        note = read_manifest(path)
        if note is None or note.stamp != stamp:
            shutil.rmtree(path)
            continue
        if name != note.snapshot:  # whole, but it was not yet given its name
            try:
                os.rename(path, os.path.join(trees, note.snapshot))
            except OSError:  # there is one of that name: one of the two is enough
                shutil.rmtree(path)
                continue
        found.append((note.snapshot, note))
    found.sort(key=lambda pair: pair[1].number)
    for name, _ in found[:-_KEPT_TREES]:
        shutil.rmtree(os.path.join(trees, name))
    return found[-_KEPT_TREES:]


def _switch_tree(trees: str, temporary: str, shared: str, name: str) -> None:
    """Put the new tree in place. The former one is left under the temporary name."""
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
        # A file system that cannot exchange names: for a moment nothing is published.
        former = temporary_name()
        os.rename(name, former, src_dir_fd=there, dst_dir_fd=here)
        os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=there)
