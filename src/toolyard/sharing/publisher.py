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

from toolyard.config.snapshots import BASELINE
from toolyard.core.agent_folder_names import folder_name
from toolyard.core.errors import SystemFault
from toolyard.files.os_errors import shown as name_shown
from toolyard.files.root_folder import RootFolder
from toolyard.files.temp_names import TEMPORARY_PREFIX, temporary_name
from toolyard.linux.renameat2 import exchange, rename_without_replacing
from toolyard.sharing.manifest import MOST_PATHS, MOST_STEPS, NOTE, Published, Step, read_note, write_note
from toolyard.sharing.tree_sync import Source, Weaver
from toolyard.sharing.visibility import Filter
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.diff.tree_diff import compare
from toolyard.snapshots.service.change_authors import recorded_authors
from toolyard.snapshots.snapshot_store import SnapshotStore
from toolyard.snapshots.store.lock import locked_file, never_mind
from toolyard.snapshots.store.models import Damaged, Snapshot
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import Entry, Kind
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.workspace.layout import SHARING, former_trees

_LOCK_SECONDS = 120.0
_KEPT = 2
"""Former trees that stay."""
_MODE = 0o700
"""Of the folders around the trees: a file for anybody may come from a folder that nobody else may enter."""
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}
_MOST_CHANGES = 100_000
"""Changes that are counted for a note."""


@dataclass(frozen=True, slots=True)
class Publication:
    note: Published
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
        self, agent: str, snapshot: Snapshot, shown: Filter, check: Callable[[], None] = never_mind
    ) -> Publication:
        """Show a snapshot of `agent` to its peers, unless a newer one is shown."""
        name = folder_name(agent)
        lock = os.path.join(ensure_state_dir(self._state), f"{name}.lock")
        try:
            with locked_file(lock, _LOCK_SECONDS, f"what {agent} shares", check):
                return self._publish(name, agent, snapshot, shown, check)
        except OSError as error:
            raise SystemFault(
                f"The work of {agent} cannot be shared: {error.strerror or error}.",
                hint="Peers still see what was shared before. Free some space, or look at the folder's rights.",
            ) from error

    def _publish(
        self, name: str, agent: str, snapshot: Snapshot, shown: Filter, check: Callable[[], None]
    ) -> Publication:
        trees = os.path.join(trees_folder(self._shared), name)
        os.makedirs(trees, mode=0o700, exist_ok=True)
        spares = _tidied(trees, shown.stamp)
        place = os.path.join(self._shared, name)
        now = read_note(place)
        if now is not None and not self._is_news(now, snapshot, shown):
            return Publication(now, changed=False)
        if now is None:
            _refuse_anything_else(place)
        with contextlib.ExitStack() as closing:
            reader = closing.enter_context(self._store.reader())
            source = None
            if now is not None and now.stamp == shown.stamp:
                source = Source(closing.enter_context(RootFolder(place)), _top(now))
            temporary, was = self._started(trees, spares, reader)
            with RootFolder(os.path.join(trees, temporary)) as root:
                weaver = Weaver(root, reader, shown, source, check)
                weaver.run(was, top_of(snapshot))
                note = self._note(agent, snapshot, shown, reader, now)
                os.fchmod(root.fd, snapshot.mode & 0o777 | _MODE)
                write_note(root.fd, note)
        _switch(trees, temporary, self._shared, name)
        _tidied(trees, shown.stamp)
        return Publication(note, changed=True, written=weaver.written, linked=weaver.linked)

    def _is_news(self, now: Published, snapshot: Snapshot, shown: Filter) -> bool:
        if now.stamp != shown.stamp:
            return True
        if now.snapshot == snapshot.id or now.tree == snapshot.tree:
            return now.mode != snapshot.mode
        # Of a store that was begun anew the numbers mean nothing.
        is_known = any(known.id == now.snapshot for known in self._store.list(snapshot.root))
        return not is_known or now.number < snapshot.number

    def _started(
        self, trees: str, spares: list[tuple[str, Published]], reader: ObjectReader
    ) -> tuple[str, Entry | None]:
        """A folder to make the tree in: the oldest spare one with what it holds, or a new one."""
        temporary = temporary_name()
        path = os.path.join(trees, temporary)
        if len(spares) >= _KEPT and _is_held(reader, spares[0][1].tree):
            os.rename(os.path.join(trees, spares[0][0]), path)
            os.unlink(os.path.join(path, NOTE))  # from here on it is no whole tree any more
            return temporary, _top(spares[0][1])
        os.mkdir(path, _MODE)
        return temporary, None

    def _note(
        self, agent: str, snapshot: Snapshot, shown: Filter, reader: ObjectReader, now: Published | None
    ) -> Published:
        steps = now.steps if now is not None else ()
        step = Step(snapshot.id, None)
        with contextlib.suppress(Damaged):  # the snapshot that was shown is gone: nobody can tell what changed
            changed = islice(self._changed(agent, snapshot, shown, reader, now), _MOST_CHANGES)
            # Agents choose names, and these are told to others: nothing in them may pass for a line of ours.
            listed = [name_shown(os.fsdecode(path)) for path in dict.fromkeys(changed)]
            step = Step(snapshot.id, len(listed), tuple(listed[:MOST_PATHS]))
        return Published(
            *(agent, snapshot.id, snapshot.number, snapshot.time_ns, snapshot.tree, snapshot.mode, shown.stamp),
            (*steps, step)[-MOST_STEPS:],
        )

    def _changed(
        self, agent: str, snapshot: Snapshot, shown: Filter, reader: ObjectReader, now: Published | None
    ) -> Iterator[bytes]:
        """What the agent changed since it last published. Raises Damaged."""
        top, since_ns, number = (_top(now), now.time_ns, now.number) if now is not None else (None, 0, 0)
        if now is None and snapshot.reason == BASELINE:
            return  # all of it was there before the agent changed anything
        with recorded_authors(self._state) as authors:
            if authors is None or not authors.has_others(snapshot.root, agent):
                yield from _changed_files(reader, top, top_of(snapshot), shown)
                return
            snapshots = [each for each in self._store.list(snapshot.root) if number < each.number <= snapshot.number]
            for each in sorted(snapshots, key=lambda one: one.number):
                interval = authors.interval(each.root, since_ns, each.time_ns)
                changed = _changed_files(reader, top, top_of(each), shown)
                yield from (path for path in changed if agent in interval.authors_of(path))
                top, since_ns = top_of(each), each.time_ns


def _changed_files(reader: ObjectReader, old: Entry | None, new: Entry, shown: Filter) -> Iterator[bytes]:
    """Files and links that differ. Raises Damaged where a side is no longer held."""
    for change in compare(reader, reader, (old, new)):
        entry = change.after or change.before
        if entry is None or entry.kind in {Kind.FOLDER, Kind.SKIPPED} or not shown.shows_path(change.path):
            continue
        folder, _, _ = change.path.rpartition(b"/")
        if folder or shown.shows(b"", entry):
            yield change.path


def trees_folder(shared: str) -> str:
    """Where former trees are kept: beside the shared folder, or in it where that is a disk of its own."""
    beside = former_trees(shared)
    os.makedirs(shared, mode=_MODE, exist_ok=True)
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


def _refuse_anything_else(place: str) -> None:
    """What stands there without a note of ours is somebody's own, and not to be taken away.

    A note that cannot be understood is ours all the same: the power may have gone before it was on disk.
    """
    try:
        names = os.listdir(place)
        is_free = not names or NOTE in names
    except FileNotFoundError:
        return
    except NotADirectoryError:
        is_free = False
    if not is_free:
        raise SystemFault(
            f"{place} holds something that was not put there by sharing.",
            hint="Move it away: the agent's work is shown to its peers at that place.",
        )


def _top(note: Published) -> Entry:
    return Entry(b"", Kind.FOLDER, note.mode, 0, note.tree)


def _is_held(reader: ObjectReader, tree: bytes) -> bool:
    try:
        reader.entries(tree)
    except Damaged:
        return False
    return True


def _tidied(trees: str, stamp: str) -> list[tuple[str, Published]]:
    """The former trees that stay, the oldest first.

    What else is in there was left by somebody who was killed, or may show what is not to be shown any more.
    """
    found: list[tuple[str, Published]] = []
    for name in os.listdir(trees):
        path = os.path.join(trees, name)
        note = read_note(path)
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
    for name, _ in found[:-_KEPT]:
        shutil.rmtree(os.path.join(trees, name))
    return found[-_KEPT:]


def _switch(trees: str, temporary: str, shared: str, name: str) -> None:
    """Put the new tree in place. The former one is left under the temporary name."""
    here = os.open(trees, _READ)
    try:
        there = os.open(shared, _READ)
        try:
            _put(temporary, here, name, there)
        finally:
            os.close(there)
    finally:
        os.close(here)


def _put(temporary: str, here: int, name: str, there: int) -> None:
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
