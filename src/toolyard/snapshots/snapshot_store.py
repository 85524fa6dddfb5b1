"""The snapshot store: immutable, content-addressed copies of folders, kept in a folder of its own.

    <folder>/lock             held by the process that writes to the store; readers never wait for it
    <folder>/index.sqlite3    see index.py
    <folder>/packs/*.pack     see packs.py

A store owns one connection to its index until `close()`. Several threads and several processes may use it at once. A
killed process loses only the snapshot that it was taking. The folder must lie outside the folders that snapshots are
taken of.
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
"""The index loads all cached pages at once if there are at most this many: a few megabytes."""


Label = Callable[[Snapshot, Snapshot, Iterable[PathChange]], Snapshot]
"""Returns a new snapshot with its agent and reason, given it, its parent and the changes. Reading the changes may
raise DamagedObjectError.
"""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Settings of a SnapshotStore."""

    ignore: Sequence[str] = DEFAULT_RULES
    """Rules in gitignore syntax, applied in addition to the accepted rules of `.toolyardignore` files."""
    lock_seconds: float = 120.0
    """How long a change waits for another writer of the store."""
    pack_bytes: int = PACK_BYTES
    workers: int = WORKERS
    label: Label | None = None
    """Called with each snapshot that differs from its parent, while the store is locked."""


class _IndexedWalkStore:
    """The WalkStore of a snapshot that is being written: reads cached pages from the index and adds new objects."""

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
    """Creates, reads, compares, restores and prunes the snapshots in one folder."""

    def __init__(self, folder: str, options: StoreOptions | None = None) -> None:
        """Opens the store and creates it if it is missing. Raises SystemFault."""
        self.folder = ensure_state_dir(os.path.abspath(folder))
        self.options = options or StoreOptions()
        self.packs = packs_folder(self.folder)
        os.makedirs(self.packs, mode=0o700, exist_ok=True)
        # A new, empty index would treat every existing pack as a leftover and delete it.
        rebuild_index(self.folder, self.options.lock_seconds, no_check, only_if_lost=True)
        self._index = Index(index_path(self.folder))
        self._index_lock = threading.Lock()

    @staticmethod
    def rebuild(folder: str, check: Callable[[], None] = no_check) -> RebuildResult:
        """Builds a new index from the packs, whatever state the old one is in; the old one is kept beside it.

        A store whose index is missing does this when it is opened. Stores that are open must be opened again.
        """
        return rebuild_index(folder, StoreOptions().lock_seconds, check)

    def close(self) -> None:
        with self._index_lock:
            self._index.close()

    # Reading

    def list(self, root: str | None = None) -> list[Snapshot]:
        """Returns the snapshots, newest first; with `root` only those of that folder."""
        with self._index_lock:
            return self._index.snapshots(os.path.realpath(root) if root else None)

    def get(self, name: str, root: str | None = None) -> Snapshot:
        """Returns a snapshot by id, by a prefix of its id, or by the name "latest"."""
        if name == LATEST:
            found = self.list(root)[:1]
        else:
            with self._index_lock:
                found = self._index.snapshots_by_prefix(name) if name else []
        if len(found) == 1:
            return found[0]
        if found:
            raise ValidationError.of(
                "snapshot", f'"{name}" matches several snapshots', hint="Use more characters of the id."
            )
        raise ToolError(f'There is no snapshot "{name}".', hint="List them to see their ids.")

    def reader(self) -> ObjectReader:
        """Opens a reader of the stored objects; the caller closes it."""
        return ObjectReader(self.packs, self._find_offsets)

    def _find_offsets(self, digests: Sequence[bytes]) -> dict[bytes, PackOffset]:
        with self._index_lock:
            return self._index.find_offsets(digests)

    def show(self, name: str, path: str | bytes = b"", root: str | None = None) -> list[TreeEntry]:
        """Returns the entries of a folder in a snapshot; for anything else, the entry itself."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find_entry(reader, root_entry(snapshot), os.fsencode(path))
            return reader.entries(entry.ref) if entry.kind is EntryKind.FOLDER else [entry]

    def read(self, name: str, path: str | bytes, limit: int | None = None, root: str | None = None) -> bytes:
        """Returns the bytes of a file in a snapshot, at most the first `limit`. Raises DamagedObjectError."""
        snapshot = self.get(name, root)
        with self.reader() as reader:
            entry = find_entry(reader, root_entry(snapshot), os.fsencode(path))
            if not entry.is_file:
                display = printable_name(os.fsdecode(path))
                raise ToolError(f"{display} is not a file in the snapshot.", hint="Show it to see what it is.")
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
        """Returns the changes from one snapshot to another, or to the current folder. Writes nothing."""
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
        """Returns the rules of `.toolyardignore` files that the user accepted for a folder."""
        return AcceptedRules.load(self.folder, root)

    def _cached_page(self, key: bytes) -> CachedPage | None:
        with self._index_lock:
            return self._index.cached_page(key)

    def verify(self, check: Callable[[], None] = no_check) -> VerifyResult:
        """Reads and hashes every object again. Returns the damaged objects and the files that need them."""
        with self._index_lock:
            objects = [row[0] for row in self._index.objects()]
        with self.reader() as reader:
            return verify(reader, objects, self.list(), self._find_offsets, check)

    # Writing

    @contextlib.contextmanager
    def open_for_writing(self, check: Callable[[], None] = no_check) -> Generator[Index]:
        """Holds the store's lock and yields an index to write to: one writer at a time across all processes."""
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
        """Takes a snapshot of `root`. `check` is called often and may raise to cancel; nothing is stored then.

        With `only_changed`, an unchanged tree gets no new snapshot: the result names the previous one. `budget` is
        called with the size of each folder before its files are read, and may also raise to cancel.
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
        """Takes a snapshot under the caller's write lock. `force_include` overrides ignore rules for files."""
        self._check_outside(folder.path)
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
                accepted = self.accepted_rules(folder.path)
                rules = IgnoreRules(self.options.ignore)
                walked = Walker(
                    *(folder, _IndexedWalkStore(index, reader, writer), pool, rules, check),
                    accepted=accepted,
                    budget=budget,
                    force_include=force_include,
                ).run()
            parent = index.newest_snapshot(folder.path)
            snapshot = Snapshot(
                *(0, new_id()[:_ID_CHARS], folder.path, started_ns, agent, reason, parent.id if parent else None),
                *(walked.tree, folder.mode, walked.counts, walked.notes),
            )
            numbers: list[int] = []
            changed = parent is None or (parent.tree, parent.mode) != (snapshot.tree, snapshot.mode)
            if parent is not None and changed:
                snapshot = self._labelled_snapshot(snapshot, parent, writer)
            # An unchanged snapshot needs no record in the packs: losing it with the index or the power costs nothing.
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
        cost = SnapshotCost(walked.files_read, walked.bytes_read, writer.bytes_written, time.perf_counter() - began)
        if not numbers and parent is not None:
            return SnapshotResult(parent, cost, changed, tuple(accepted.proposals))
        return SnapshotResult(replace(snapshot, number=numbers[0]), cost, changed, tuple(accepted.proposals))

    def _check_outside(self, folder: str) -> None:
        """Raises ValidationError if the folder contains the store, which would then contain itself."""
        if is_beneath(os.path.realpath(self.folder), folder):
            raise ValidationError.of(
                "root", f"{folder} contains the snapshot store", hint="Choose a state folder outside it."
            )

    def _labelled_snapshot(self, snapshot: Snapshot, parent: Snapshot, writer: ObjectWriter) -> Snapshot:
        """Returns the snapshot with the agent and reason that the `label` option gives it for its changes."""
        if self.options.label is None:
            return snapshot
        with ObjectReader(self.packs, writer.find_offsets) as reader:
            changes = compare_trees(reader, reader, (root_entry(parent), root_entry(snapshot)))
            return self.options.label(snapshot, parent, changes)

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
        """Restores the folder, or only `paths` in it, to the state of a snapshot.

        A snapshot of the current state is taken first; restoring that one (`before` in the result) undoes this.
        Nothing is deleted or replaced that it does not contain, and nothing that `may_write` refuses: such paths are
        skipped and listed in the result. With `skip_git` repositories are skipped too, unless `paths` names one.
        """
        snapshot = self.get(name, root)
        wanted = [os.fsencode(path) for path in paths] if paths is not None else None
        with RootFolder(root or snapshot.root) as folder, self.open_for_writing(check) as index:
            reason = f"before restoring {snapshot.id}"
            with self.reader() as reader:
                # Ignore rules accepted after the snapshot must not prevent restoring what it contains.
                force_include = names_in_snapshot(reader, snapshot)
                before = self.create_with_index(
                    folder, index, agent, reason, check, only_changed=True, force_include=force_include
                ).snapshot
            now = root_entry(before)
            unchanged = UnchangedCheck(root_prefix(folder), index.cached_page)
            with (
                self.reader() as reader,
                Restorer(
                    folder, reader, unchanged, now, check, overwrite_torn=paths is not None, may_write=may_write
                ) as restorer,
            ):
                try:
                    top, damaged = root_entry(snapshot), restorer.record_damage
                    restorer.run(make_plan(reader, now, top, wanted, damaged, skip_git=skip_git))
                except OSError as error:
                    raise _interrupted_restore(error, before) from error
                return restorer.result(before, snapshot)

    def gc(
        self,
        *,
        keep: int | None = None,
        newer_than: float | None = None,
        check: Callable[[], None] = no_check,
    ) -> PruneResult:
        """Deletes all but the newest `keep` snapshots of each folder and those younger than `newer_than` seconds.

        The newest snapshot of each folder always stays. Without either limit every snapshot stays, and only
        unreachable objects are deleted.
        """
        with self.open_for_writing(check) as index, self.reader() as reader:
            gone: list[Snapshot] = []
            if keep is not None or newer_than is not None:
                since = None if newer_than is None else time.time_ns() - int(newer_than * 1e9)
                gone = expired_snapshots(index.snapshots(), keep, since)
            return prune_snapshots(self.packs, index, reader, gone, check)

    def forget_damaged(self, verified: VerifyResult) -> None:
        """Drops damaged objects from the index, so that the next snapshot with the same content stores them again."""
        with self.open_for_writing() as index, index.transaction():
            index.drop_objects(verified.damaged_objects)
            index.clear_cached_pages()


def _interrupted_restore(error: OSError, before: Snapshot) -> SystemFault:
    return SystemFault(
        f"The restore stopped part way: {error.strerror}.",
        hint=f"No file is partly written. Free some space and restore again, or restore {before.id} to undo it.",
    )
