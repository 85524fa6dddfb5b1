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

from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault, ToolError, ValidationError
from toolyard.core.ids import new_id
from toolyard.core.paths import is_beneath
from toolyard.files.os_errors import printable_name
from toolyard.files.root_folder import RootFolder
from toolyard.snapshots.archive.file_reader import Objects
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import DEFAULT_RULES, IgnoreRules
from toolyard.snapshots.archive.read_pool import WORKERS, ReadPool
from toolyard.snapshots.archive.walk_keys import root_prefix
from toolyard.snapshots.archive.walker import ForceInclude, SizeCheck, Walker
from toolyard.snapshots.diff.live_tree import LiveTree, NullSink
from toolyard.snapshots.diff.sides import LiveSide, SnapshotSide, diff_sides, names_in_snapshot, root_entry
from toolyard.snapshots.diff.text_diff import Diff, DiffLimits
from toolyard.snapshots.diff.tree_diff import PathChange, compare_trees
from toolyard.snapshots.restore.plan import make_plan
from toolyard.snapshots.restore.restorer import MayWrite, Restorer, RestoreResult, allow_all
from toolyard.snapshots.restore.temp_cleanup import clear_leftovers
from toolyard.snapshots.restore.unchanged_check import UnchangedCheck
from toolyard.snapshots.store.check import VerifyResult, verify
from toolyard.snapshots.store.index import CachedPage, Index
from toolyard.snapshots.store.layout import index_path, lock_path, packs_folder
from toolyard.snapshots.store.lock import locked_file, no_check
from toolyard.snapshots.store.lost_packs import forget_lost_objects
from toolyard.snapshots.store.models import Snapshot, SnapshotCost, SnapshotResult
from toolyard.snapshots.store.object_reader import ObjectReader, find_entry
from toolyard.snapshots.store.object_writer import ObjectWriter, remove_leftovers
from toolyard.snapshots.store.objects import EntryKind, TreeEntry
from toolyard.snapshots.store.packs import PACK_BYTES, PackOffset
from toolyard.snapshots.store.prune import PruneResult, expired_snapshots, prune_snapshots
from toolyard.snapshots.store.repair_index import RebuildResult, rebuild_index
from toolyard.storage.state_folder import ensure_state_dir

_ID_CHARS = 12
LATEST = "latest"
_MAX_PRELOADED_PAGES = 1_000
"""Pages whose looks are read ahead: a few megabytes."""


Label = Callable[[Snapshot, Snapshot, Iterable[PathChange]], Snapshot]
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


class _IndexedWalkStore:
    """What a walk asks of a store that is being written to."""

    def __init__(self, index: Index, reader: ObjectReader, writer: ObjectWriter) -> None:
        self._index = index
        self._reader = reader
        self._writer = writer
        self._all_pages = index.all_cached_pages(_MAX_PRELOADED_PAGES)

    def cached_page(self, key: bytes) -> CachedPage | None:
        if self._all_pages is not None:
            return self._all_pages.get(key)
        with self._writer.lock:
            return self._index.cached_page(key)

    def page(self, digest: bytes) -> bytes:
        return self._reader.read(digest)

    def put_trees(self, objects: Objects) -> None:
        self._writer.put(objects)


class SnapshotStore(Closeable):
    def __init__(self, folder: str, options: StoreOptions | None = None) -> None:
        """Opens the store, made when it is missing. Raises SystemFault."""
        self.folder = ensure_state_dir(os.path.abspath(folder))
        self.options = options or StoreOptions()
        self.packs = packs_folder(self.folder)
        os.makedirs(self.packs, mode=0o700, exist_ok=True)
        # To a new index every pack would be one that nobody knows.
        rebuild_index(self.folder, self.options.lock_seconds, no_check, only_if_lost=True)
        self._index = Index(index_path(self.folder))
        self._index_lock = threading.Lock()

    @staticmethod
    def rebuild(folder: str, check: Callable[[], None] = no_check) -> RebuildResult:
        """Make a new index from the packs, whatever state the old one is in; that is kept beside it.

        A store whose index is gone does so when it is opened. Others that are open have to be opened again.
        """
        return rebuild_index(folder, StoreOptions().lock_seconds, check)

    def close(self) -> None:
        with self._index_lock:
            self._index.close()

    # Looking

    def list(self, root: str | None = None) -> list[Snapshot]:
        """The snapshots, newest first; with `root` those of that folder."""
        with self._index_lock:
            return self._index.snapshots(os.path.realpath(root) if root else None)

    def get(self, name: str, root: str | None = None) -> Snapshot:
        """By id, by the beginning of one, or "latest"."""
        if name == LATEST:
            found = self.list(root)[:1]
        else:
            with self._index_lock:
                found = self._index.snapshots_by_prefix(name) if name else []
        if len(found) == 1:
            return found[0]
        if found:
            raise ValidationError.of("snapshot", f'"{name}" begins more than one id', hint="Write more of it.")
        raise ToolError(f'There is no snapshot "{name}".', hint="List them to see their ids.")

    def reader(self) -> ObjectReader:
        return ObjectReader(self.packs, self._find_offsets)

    def _find_offsets(self, digests: Sequence[bytes]) -> dict[bytes, PackOffset]:
        with self._index_lock:
            return self._index.find_offsets(digests)

    def show(self, name: str, path: str | bytes = b"", root: str | None = None) -> list[TreeEntry]:
        """What a folder of a snapshot holds; of anything else, its own entry."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find_entry(reader, root_entry(snapshot), os.fsencode(path))
            return reader.entries(entry.ref) if entry.kind is EntryKind.FOLDER else [entry]

    def read(self, name: str, path: str | bytes, limit: int | None = None, root: str | None = None) -> bytes:
        """A file's bytes as a snapshot holds them, at most the first `limit`. Raises Damaged."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find_entry(reader, root_entry(snapshot), os.fsencode(path))
            if not entry.is_file:
                told = printable_name(os.fsdecode(path))
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
        check: Callable[[], None] = no_check,
    ) -> Diff:
        """What changed from one snapshot to another, or to the folder as it is now. Writes nothing."""
        limits = limits or DiffLimits()
        one = self.get(before, root)
        with self.reader() as reader:
            old = SnapshotSide(reader, one)
            if after is not None:
                return diff_sides(old, SnapshotSide(reader, self.get(after, root)), os.fsencode(path), limits)
            with RootFolder(root or one.root) as folder:
                new = self._live_side(folder, reader, check, names_in_snapshot(reader, one))
                return diff_sides(old, new, os.fsencode(path), limits)

    def _live_side(
        self, folder: RootFolder, reader: ObjectReader, check: Callable[[], None], force_include: ForceInclude
    ) -> LiveSide:
        trees = LiveTree(reader, self._cached_page)
        with ReadPool(NullSink(), self.options.workers) as pool:
            rules, accepted = IgnoreRules(self.options.ignore), self.accepted_rules(folder.path)
            walked = Walker(folder, trees, pool, rules, check, accepted=accepted, force_include=force_include).run()
        return LiveSide(trees, folder, walked.tree)

    def accepted_rules(self, root: str) -> AcceptedRules:
        """The rules of `.toolyardignore` files that the user accepted for a folder."""
        return AcceptedRules.load(self.folder, root)

    def _cached_page(self, key: bytes) -> CachedPage | None:
        with self._index_lock:
            return self._index.cached_page(key)

    def verify(self, check: Callable[[], None] = no_check) -> VerifyResult:
        """Read every object again. Finds what is damaged, and the files that need it."""
        with self._index_lock:
            objects = [row[0] for row in self._index.objects()]
        with self.reader() as reader:
            return verify(reader, objects, self.list(), self._find_offsets, check)

    # Changing

    @contextlib.contextmanager
    def open_for_writing(self, check: Callable[[], None] = no_check) -> Generator[Index]:
        """Hold the store's lock, with an index to change. One writer at a time, in all processes."""
        with (
            locked_file(lock_path(self.folder), self.options.lock_seconds, "the snapshots", check),
            Index(index_path(self.folder)) as index,
        ):
            remove_leftovers(self.packs, index)
            yield index

    def create(
        self,
        root: str,
        *,
        agent: str = "",
        reason: str = "",
        check: Callable[[], None] = no_check,
        only_changed: bool = False,
        budget: SizeCheck | None = None,
    ) -> SnapshotResult:
        """Take a snapshot of `root`. `check` is called often and may raise to give up; nothing is kept then.

        With `only_changed`, a tree that is as it was gets no snapshot of its own: the one before is returned.
        `budget` is told what each folder holds before its files are read, and may raise to give up too.
        """
        with RootFolder(root) as folder, self.open_for_writing(check) as index:
            return self.create_with_index(
                folder, index, agent, reason, check, only_changed=only_changed, budget=budget
            )

    def create_with_index(
        self,
        folder: RootFolder,
        index: Index,
        agent: str,
        reason: str,
        check: Callable[[], None] = no_check,
        *,
        only_changed: bool = False,
        budget: SizeCheck | None = None,
        force_include: ForceInclude | None = None,
    ) -> SnapshotResult:
        """The same for who is writing already. `force_include` names what is held whatever accepted rules say."""
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
                index.read_transaction(),
                ObjectReader(self.packs, writer.find_offsets) as reader,
                ReadPool(writer, self.options.workers) as pool,
            ):
                rules = IgnoreRules(self.options.ignore)
                memory = _IndexedWalkStore(index, reader, writer)
                accepted = self.accepted_rules(folder.path)
                walked = Walker(
                    folder, memory, pool, rules, check, accepted=accepted, budget=budget, force_include=force_include
                ).run()
            parent = index.newest_snapshot(folder.path)
            snapshot = Snapshot(
                *(0, new_id()[:_ID_CHARS], folder.path, started_ns, agent, reason, parent.id if parent else None),
                *(walked.tree, folder.mode, walked.counts, walked.notes),
            )
            numbers: list[int] = []
            changed = parent is None or (parent.tree, parent.mode) != (snapshot.tree, snapshot.mode)
            if parent is not None and changed and self.options.label is not None:
                with ObjectReader(self.packs, writer.find_offsets) as reader:
                    changes = compare_trees(reader, reader, (root_entry(parent), root_entry(snapshot)))
                    snapshot = self.options.label(snapshot, parent, changes)
            # A picture that is the same as the one before is no loss when the power goes, or the index.
            record = writer.put_snapshot(snapshot) if changed else None

            def write_index() -> None:
                index.put_cached_pages(walked.cached_pages)
                if changed or not only_changed:
                    numbers.append(index.add_snapshot(snapshot, record))

            writer.commit(write_index, synced=changed)
            clear_leftovers(folder, walked.leftovers, lambda digest: bool(index.find_offsets([digest])))
        except BaseException:
            writer.abandon()
            raise
        work = SnapshotCost(walked.files_read, walked.bytes_read, writer.bytes_written, time.perf_counter() - began)
        if not numbers and parent is not None:
            return SnapshotResult(parent, work, changed, tuple(accepted.proposals))
        return SnapshotResult(replace(snapshot, number=numbers[0]), work, changed, tuple(accepted.proposals))

    def restore(
        self,
        name: str,
        *,
        root: str | None = None,
        paths: Sequence[str | bytes] | None = None,
        agent: str = "",
        check: Callable[[], None] = no_check,
        may_write: MayWrite = allow_all,
        skip_git: bool = False,
    ) -> RestoreResult:
        """Make the folder, or only `paths` in it, what a snapshot says. What was there is held by a snapshot first.

        Restoring that one (`before` in the result) undoes it. Nothing is deleted or replaced that it does not hold,
        nor what `may_write` is false for: that is left alone and told. With `skip_git` repositories are, too, unless
        `paths` names one.
        """
        snapshot = self.get(name, root)
        wanted = [os.fsencode(path) for path in paths] if paths is not None else None
        with RootFolder(root or snapshot.root) as folder, self.open_for_writing(check) as index:
            reason = f"before restoring {snapshot.id}"
            with self.reader() as reader:
                # Rules that were accepted since must not keep what was done before from being undone.
                also = names_in_snapshot(reader, snapshot)
                before = self.create_with_index(
                    folder, index, agent, reason, check, only_changed=True, force_include=also
                ).snapshot
            now = root_entry(before)
            held = UnchangedCheck(root_prefix(folder), index.cached_page)
            with (
                self.reader() as reader,
                Restorer(
                    folder, reader, held, now, check, overwrite_torn=paths is not None, may_write=may_write
                ) as restoring,
            ):
                try:
                    top, damaged = root_entry(snapshot), restoring.record_damage
                    restoring.run(make_plan(reader, now, top, wanted, damaged, skip_git=skip_git))
                except OSError as error:
                    raise _interrupted_restore(error, before) from error
                return restoring.result(before, snapshot)

    def gc(
        self,
        *,
        keep: int | None = None,
        newer_than: float | None = None,
        check: Callable[[], None] = no_check,
    ) -> PruneResult:
        """Keep the newest `keep` snapshots of each folder and all younger than `newer_than` seconds; drop the others.

        The newest of each folder always stays. Without either every snapshot stays, and only what nothing needs goes.
        """
        with self.open_for_writing(check) as index, self.reader() as reader:
            gone: list[Snapshot] = []
            if keep is not None or newer_than is not None:
                since = None if newer_than is None else time.time_ns() - int(newer_than * 1e9)
                gone = expired_snapshots(index.snapshots(), keep, since)
            return prune_snapshots(self.packs, index, reader, gone, check)

    def forget_damaged(self, verified: VerifyResult) -> None:
        """Let damaged objects go, so that they are stored again when a snapshot meets their content again."""
        with self.open_for_writing() as index, index.transaction():
            index.drop_objects(verified.damaged_objects)
            index.clear_cached_pages()


def _interrupted_restore(error: OSError, before: Snapshot) -> SystemFault:
    return SystemFault(
        f"The restore stopped half way: {error.strerror}.",
        hint=f"Every file is whole. Free some space and restore again, or restore {before.id} to undo it.",
    )
