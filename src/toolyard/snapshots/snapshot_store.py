"""The snapshot store: immutable, content-addressed pictures of folders, in a folder of its own.

    <folder>/lock             held by whoever changes the store; readers never wait for it
    <folder>/index.sqlite3    see index.py
    <folder>/packs/*.pack     see packs.py

A store owns one connection to its index until `close()`. It may be used by several threads, and by several processes
at once. A process that is killed loses the snapshot it was taking and nothing else. The folder must lie outside what
snapshots are taken of.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from toolyard.core.closeable import Closing
from toolyard.core.errors import SystemFault, ToolError, ValidationError
from toolyard.core.ids import new_id
from toolyard.core.paths import is_beneath
from toolyard.files.os_errors import shown
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.archive.file_reader import Objects
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import DEFAULT_RULES, Rules
from toolyard.snapshots.archive.read_pool import WORKERS, ReadingPool
from toolyard.snapshots.archive.walk_keys import root_prefix
from toolyard.snapshots.archive.walker import Also, Budget, Walk
from toolyard.snapshots.diff.live_tree import LiveTree, Nowhere
from toolyard.snapshots.diff.sides import LiveSide, SnapshotSide, differences, held_by, top_of
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits
from toolyard.snapshots.diff.tree_diff import Change, compare
from toolyard.snapshots.restore.plan import make_plan
from toolyard.snapshots.restore.restorer import May, Restored, Restoring, may_all
from toolyard.snapshots.restore.temp_cleanup import clear_leftovers
from toolyard.snapshots.restore.unchanged_check import Held
from toolyard.snapshots.store.check import Verified, verify
from toolyard.snapshots.store.index import Index, Seen
from toolyard.snapshots.store.layout import index_of, lock_of, packs_of
from toolyard.snapshots.store.lock import locked_file, never_mind
from toolyard.snapshots.store.lost_packs import forget_lost_objects
from toolyard.snapshots.store.models import Snapshot, Taken, Work
from toolyard.snapshots.store.object_reader import ObjectReader, find
from toolyard.snapshots.store.object_writer import ObjectWriter, reclaim
from toolyard.snapshots.store.objects import Entry, Kind
from toolyard.snapshots.store.packs import PACK_BYTES, Place
from toolyard.snapshots.store.prune import Collected, collect, doomed
from toolyard.snapshots.store.repair_index import Rebuilt, rebuild
from toolyard.storage.state_folder import ensure_state_dir

_ID_CHARS = 12
LATEST = "latest"
_MOST_AT_ONCE = 1_000
"""Pages whose looks are read ahead: a few megabytes."""


Label = Callable[[Snapshot, Snapshot, Iterable[Change]], Snapshot]
"""A new snapshot with its agent and reason, from it, the one before, and what differs, which may raise Damaged."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    ignore: Sequence[str] = DEFAULT_RULES
    """Rules in gitignore's spelling, beside the accepted ones of `.toolyardignore` files."""
    lock_seconds: float = 120.0
    """How long a change waits for another writer of the store."""
    pack_bytes: int = PACK_BYTES
    workers: int = WORKERS
    label: Label | None = None
    """Called with each snapshot that differs from the one before, while the store is locked."""


class _Memory:
    """What a walk asks of a store that is being written to."""

    def __init__(self, index: Index, reader: ObjectReader, writer: ObjectWriter) -> None:
        self._index = index
        self._reader = reader
        self._writer = writer
        self._all = index.all_seen(_MOST_AT_ONCE)

    def seen(self, place: bytes) -> Seen | None:
        if self._all is not None:
            return self._all.get(place)
        with self._writer.using:
            return self._index.seen(place)

    def page(self, digest: bytes) -> bytes:
        return self._reader.read(digest)

    def put_trees(self, objects: Objects) -> None:
        self._writer.put(objects)


class SnapshotStore(Closing):
    def __init__(self, folder: str, options: StoreOptions | None = None) -> None:
        """Opens the store, made when it is missing. Raises SystemFault."""
        self.folder = ensure_state_dir(os.path.abspath(folder))
        self.options = options or StoreOptions()
        self.packs = packs_of(self.folder)
        os.makedirs(self.packs, mode=0o700, exist_ok=True)
        # To a new index every pack would be one that nobody knows.
        rebuild(self.folder, self.options.lock_seconds, never_mind, only_if_lost=True)
        self._index = Index(index_of(self.folder))
        self._using = threading.Lock()

    @staticmethod
    def rebuild(folder: str, check: Callable[[], None] = never_mind) -> Rebuilt:
        """Make a new index from the packs, whatever state the old one is in; that is kept beside it.

        A store whose index is gone does so when it is opened. Others that are open have to be opened again.
        """
        return rebuild(folder, StoreOptions().lock_seconds, check)

    def close(self) -> None:
        with self._using:
            self._index.close()

    # Looking

    def list(self, root: str | None = None) -> list[Snapshot]:
        """The snapshots, newest first; with `root` those of that folder."""
        with self._using:
            return self._index.snapshots(os.path.realpath(root) if root else None)

    def get(self, name: str, root: str | None = None) -> Snapshot:
        """By id, by the beginning of one, or "latest"."""
        if name == LATEST:
            found = self.list(root)[:1]
        else:
            with self._using:
                found = self._index.by_prefix(name) if name else []
        if len(found) == 1:
            return found[0]
        if found:
            raise ValidationError.of("snapshot", f'"{name}" begins more than one id', hint="Write more of it.")
        raise ToolError(f'There is no snapshot "{name}".', hint="List them to see their ids.")

    def reader(self) -> ObjectReader:
        return ObjectReader(self.packs, self._places_of)

    def _places_of(self, digests: Sequence[bytes]) -> dict[bytes, Place]:
        with self._using:
            return self._index.places_of(digests)

    def show(self, name: str, path: str | bytes = b"", root: str | None = None) -> list[Entry]:
        """What a folder of a snapshot holds; of anything else, its own entry."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find(reader, top_of(snapshot), os.fsencode(path))
            return reader.entries(entry.ref) if entry.kind is Kind.FOLDER else [entry]

    def read(self, name: str, path: str | bytes, limit: int | None = None, root: str | None = None) -> bytes:
        """A file's bytes as a snapshot holds them, at most the first `limit`. Raises Damaged."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find(reader, top_of(snapshot), os.fsencode(path))
            if not entry.is_file:
                told = shown(os.fsdecode(path))
                raise ToolError(f"{told} is no file in the snapshot.", hint="Show it to see what it is.")
            return reader.content(entry, limit)

    def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        root: str | None = None,
        path: str | bytes = b"",
        limits: DiffLimits | None = None,
        check: Callable[[], None] = never_mind,
    ) -> Diff:
        """What changed from one snapshot to another, or to the folder as it is now. Writes nothing."""
        limits = limits or DiffLimits()
        one = self.get(before, root)
        with self.reader() as reader:
            old = SnapshotSide(reader, one)
            if after is not None:
                return differences(old, SnapshotSide(reader, self.get(after, root)), os.fsencode(path), limits)
            with RootFolder(root or one.root) as folder:
                new = self._live(folder, reader, check, held_by(reader, one))
                return differences(old, new, os.fsencode(path), limits)

    def _live(self, folder: RootFolder, reader: ObjectReader, check: Callable[[], None], also: Also) -> LiveSide:
        trees = LiveTree(reader, self._seen)
        with ReadingPool(Nowhere(), self.options.workers) as pool:
            rules, accepted = Rules(self.options.ignore), self.accepted(folder.path)
            walked = Walk(folder, trees, pool, rules, check, accepted=accepted, also=also).run()
        return LiveSide(trees, folder, walked.tree)

    def accepted(self, root: str) -> AcceptedRules:
        """The rules of `.toolyardignore` files that the user accepted for a folder."""
        return AcceptedRules.load(self.folder, root)

    def _seen(self, place: bytes) -> Seen | None:
        with self._using:
            return self._index.seen(place)

    def verify(self, check: Callable[[], None] = never_mind) -> Verified:
        """Read every object again. Finds what is damaged, and the files that need it."""
        with self._using:
            objects = [row[0] for row in self._index.objects()]
        with self.reader() as reader:
            return verify(reader, objects, self.list(), self._places_of, check)

    # Changing

    @contextlib.contextmanager
    def writing(self, check: Callable[[], None] = never_mind) -> Generator[Index]:
        """Hold the store's lock, with an index to change. One writer at a time, in all processes."""
        with (
            locked_file(lock_of(self.folder), self.options.lock_seconds, "the snapshots", check),
            Index(index_of(self.folder)) as index,
        ):
            reclaim(self.packs, index)
            yield index

    def create(
        self,
        root: str,
        *,
        agent: str = "",
        reason: str = "",
        check: Callable[[], None] = never_mind,
        only_changed: bool = False,
        budget: Budget | None = None,
    ) -> Taken:
        """Take a snapshot of `root`. `check` is called often and may raise to give up; nothing is kept then.

        With `only_changed`, a tree that is as it was gets no snapshot of its own: the one before is returned.
        `budget` is told what each folder holds before its files are read, and may raise to give up too.
        """
        with RootFolder(root) as folder, self.writing(check) as index:
            return self.take(folder, index, agent, reason, check, only_changed=only_changed, budget=budget)

    def take(
        self,
        folder: RootFolder,
        index: Index,
        agent: str,
        reason: str,
        check: Callable[[], None] = never_mind,
        *,
        only_changed: bool = False,
        budget: Budget | None = None,
        also: Also | None = None,
    ) -> Taken:
        """The same for who is writing already. `also` names what is held whatever accepted rules say."""
        if is_beneath(os.path.realpath(self.folder), folder.path):
            raise ValidationError.of(
                "root", f"{folder.path} holds the snapshots themselves", hint="Choose a state folder outside it."
            )
        began = time.perf_counter()
        started_ns = time.time_ns()
        forget_lost_objects(self.packs, index)
        writer = ObjectWriter(self.packs, index, self.options.pack_bytes)
        try:
            with (
                index.reading(),
                ObjectReader(self.packs, writer.places_of) as reader,
                ReadingPool(writer, self.options.workers) as pool,
            ):
                rules = Rules(self.options.ignore)
                memory = _Memory(index, reader, writer)
                accepted = self.accepted(folder.path)
                walked = Walk(folder, memory, pool, rules, check, accepted=accepted, budget=budget, also=also).run()
            parent = index.newest(folder.path)
            snapshot = Snapshot(
                *(0, new_id()[:_ID_CHARS], folder.path, started_ns, agent, reason, parent.id if parent else None),
                *(walked.tree, folder.mode, walked.counts, walked.notes),
            )
            numbers: list[int] = []
            changed = parent is None or (parent.tree, parent.mode) != (snapshot.tree, snapshot.mode)
            if parent is not None and changed and self.options.label is not None:
                with ObjectReader(self.packs, writer.places_of) as reader:
                    changes = compare(reader, reader, (top_of(parent), top_of(snapshot)))
                    snapshot = self.options.label(snapshot, parent, changes)
            # A picture that is the same as the one before is no loss when the power goes, or the index.
            record = writer.put_snapshot(snapshot) if changed else None

            def recorded() -> None:
                index.put_seen(walked.seen)
                if changed or not only_changed:
                    numbers.append(index.add_snapshot(snapshot, record))

            writer.commit(recorded, synced=changed)
            clear_leftovers(folder, walked.leftovers, lambda digest: bool(index.places_of([digest])))
        except BaseException:
            writer.abandon()
            raise
        work = Work(walked.files_read, walked.bytes_read, writer.bytes_written, time.perf_counter() - began)
        if not numbers and parent is not None:
            return Taken(parent, work, changed, tuple(accepted.proposals))
        return Taken(replace(snapshot, number=numbers[0]), work, changed, tuple(accepted.proposals))

    def restore(
        self,
        name: str,
        *,
        root: str | None = None,
        paths: Sequence[str | bytes] | None = None,
        agent: str = "",
        check: Callable[[], None] = never_mind,
        may: May = may_all,
        leaves_git: bool = False,
    ) -> Restored:
        """Make the folder, or only `paths` in it, what a snapshot says. What was there is held by a snapshot first.

        Restoring that one (`before` in the result) undoes it. Nothing is deleted or replaced that it does not hold,
        nor what `may` is false for: that is left alone and told. With `leaves_git` repositories are, too, unless
        `paths` names one.
        """
        snapshot = self.get(name, root)
        wanted = [os.fsencode(path) for path in paths] if paths is not None else None
        with RootFolder(root or snapshot.root) as folder, self.writing(check) as index:
            reason = f"before restoring {snapshot.id}"
            with self.reader() as reader:
                # Rules that were accepted since must not keep what was done before from being undone.
                also = held_by(reader, snapshot)
                before = self.take(folder, index, agent, reason, check, only_changed=True, also=also).snapshot
            now = top_of(before)
            held = Held(root_prefix(folder), index.seen)
            with (
                self.reader() as reader,
                Restoring(folder, reader, held, now, check, overwrite_torn=paths is not None, may=may) as restoring,
            ):
                try:
                    top, damaged = top_of(snapshot), restoring.damaged
                    restoring.run(make_plan(reader, now, top, wanted, damaged, leaves_git=leaves_git))
                except OSError as error:
                    raise _stopped(error, before) from error
                return restoring.result(before, snapshot)

    def gc(
        self,
        *,
        keep: int | None = None,
        newer_than: float | None = None,
        check: Callable[[], None] = never_mind,
    ) -> Collected:
        """Keep the newest `keep` snapshots of each folder and all younger than `newer_than` seconds; drop the others.

        The newest of each folder always stays. Without either every snapshot stays, and only what nothing needs goes.
        """
        with self.writing(check) as index, self.reader() as reader:
            gone: list[Snapshot] = []
            if keep is not None or newer_than is not None:
                since = None if newer_than is None else time.time_ns() - int(newer_than * 1e9)
                gone = doomed(index.snapshots(), keep, since)
            return collect(self.packs, index, reader, gone, check)

    def forget_damaged(self, verified: Verified) -> None:
        """Let damaged objects go, so that they are stored again when a snapshot meets their content again."""
        with self.writing() as index, index.transaction():
            index.drop_objects(verified.damaged)
            index.forget_seen()


def _stopped(error: OSError, before: Snapshot) -> SystemFault:
    return SystemFault(
        f"The restore stopped half way: {error.strerror}.",
        hint=f"Every file is whole. Free some space and restore again, or restore {before.id} to undo it.",
    )
