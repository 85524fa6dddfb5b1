"""Walks a folder and builds its tree of objects.

Folders are walked depth first: each is scanned, its changed files go to the read pool, and its object is built after
those of its subfolders. A page with unchanged stats is reused without decoding it.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from toolyard.files.root_folder import RootFolder, join_path
from toolyard.snapshots.archive.file_reader import FileContent, Objects, UnreadableFile
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE, IgnoreRules, temporary_names
from toolyard.snapshots.archive.read_pool import ReadPool, ReadResults
from toolyard.snapshots.archive.stat_cache import (
    UNCERTAIN_CTIME,
    StatEntry,
    StatRow,
    decode_stats,
    disk_usage,
    encode_stats,
    is_racy,
    racy_cutoff,
    same_stat,
    scan_folder,
)
from toolyard.snapshots.archive.walk_keys import (
    page_key,
    root_prefix,
    special_entry,
    unreadable_folder_reason,
)
from toolyard.snapshots.store.index import CachedPage
from toolyard.snapshots.store.models import MAX_NOTES, Counts, DamagedObjectError, PathNote
from toolyard.snapshots.store.objects import (
    DIGEST_BYTES,
    EntryKind,
    MalformedObjectError,
    TreeEntry,
    count_entries,
    decode_page,
    digest_of,
    encode_page,
    encode_pages,
    page_ranges,
)

_LOOKAHEAD = 256
"""Folders whose files may still be being read while the walk goes on."""
_TREES_AT_ONCE = 64
"""Folder objects that are stored together."""
_FILE = EntryKind.FILE


ForceInclude = Callable[[bytes], set[str]]
"""Returns the names in a folder to include even where accepted ignore rules exclude them."""
SizeCheck = Callable[[int, int], None]
"""Called for each folder with its number of entries and the bytes of its files, before any is read; may raise."""


class WalkStore(Protocol):
    """What is known from earlier snapshots, and where new objects go."""

    def cached_page(self, key: bytes) -> CachedPage | None: ...

    def page(self, digest: bytes) -> bytes: ...

    def put_trees(self, objects: Objects) -> None: ...


@dataclass(slots=True)
class _Page:
    key: bytes
    rows: list[StatRow]
    """Empty if the page is unchanged."""
    encoded: bytes
    folders: list[str]
    cached: CachedPage | None
    is_same: bool
    known_entries: list[TreeEntry | None] = field(default_factory=list[TreeEntry | None])
    """The entry of each row, unless it is a folder or is being read."""
    pending_reads: Future[ReadResults] | None = None


@dataclass(slots=True)
class _Folder:
    path: bytes
    names: tuple[str, ...]
    parent: _Folder | None
    rules: IgnoreRules
    pages: list[_Page]
    waiting: list[str]
    digests: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The digest of each subfolder, or the reason why there is none, which is never as long as a digest."""


@dataclass(slots=True)
class WalkResult:
    """The result of a walk."""

    tree: bytes
    counts: Counts
    notes: tuple[PathNote, ...]
    cached_pages: list[tuple[bytes, CachedPage]]
    files_read: int
    bytes_read: int
    leftovers: list[bytes]
    """Temporary files of Toolyard, of a running writer or of a killed one."""


class Walker:
    """One walk through a root. It reads earlier state only from `store`."""

    def __init__(
        self,
        root: RootFolder,
        store: WalkStore,
        pool: ReadPool,
        rules: IgnoreRules,
        check: Callable[[], None],
        *,
        accepted: AcceptedRules,
        budget: SizeCheck | None = None,
        force_include: ForceInclude | None = None,
    ) -> None:
        self._root = root
        self._store = store
        self._pool = pool
        self._rules = rules
        self._accepted = accepted
        self._started_ns = time.time_ns()
        self._check = check
        self._budget = budget
        self._force_include = force_include
        self._forced_folders: set[bytes] = set()
        self._prefix = root_prefix(root)
        self._files = self._folders = self._links = self._skipped = self._torn = self._size = 0
        self._files_read = self._bytes_read = 0
        self._notes: list[PathNote] = []
        self._leftovers: list[bytes] = []
        self._cached_pages: list[tuple[bytes, CachedPage]] = []
        self._trees: list[tuple[bytes, bytes]] = []

    def run(self) -> WalkResult:
        """Walks the root. Raises SystemFault (the disk is full), and whatever `check` raises."""
        top = self._enter(None, "")
        open_folders = [top]
        closing: deque[_Folder] = deque()
        tree = b""
        while open_folders or closing:
            if open_folders and len(closing) < _LOOKAHEAD:
                folder = open_folders[-1]
                if folder.waiting:
                    name = folder.waiting.pop()
                    try:
                        open_folders.append(self._enter(folder, name))
                    except OSError as error:
                        folder.digests[name] = unreadable_folder_reason(error)
                else:
                    closing.append(open_folders.pop())
                continue
            folder = closing.popleft()
            tree = self._finish_folder(folder)
            if folder.parent is not None:
                folder.parent.digests[folder.names[-1]] = tree
        self._flush_trees()
        counts = Counts(self._files, self._folders, self._links, self._skipped, self._torn, self._size)
        read = (self._files_read, self._bytes_read)
        return WalkResult(tree, counts, tuple(self._notes), self._cached_pages, *read, self._leftovers)

    # On the way down

    def _enter(self, parent: _Folder | None, name: str) -> _Folder:
        self._check()
        path = join_path(parent.path, os.fsencode(name)) if parent else b""
        names = (*parent.names, name) if parent else ()
        fd = self._root.open(path)
        try:
            rows, folders = scan_folder(fd)
            found = [row[0] for row in rows]
            rules = parent.rules if parent else self._rules
            rules = self._accepted.rules_for_folder(path, rules, fd if IGNORE_FILE in found else None)
            among = set(folders)
            files = [name for name in found if name not in among] if among else found
            out = rules.ignored_names(names, files, folders)
            out.discard(IGNORE_FILE)  # always included: an agent must not be able to hide its own rules
            if self._force_include is not None and (out or path in self._forced_folders):
                out = self._without_forced(out, path, names, (files, folders), self._force_include(path))
            if own := temporary_names(found):
                self._leftovers += (join_path(path, os.fsencode(name)) for name in own)
                out |= own
            if out:
                rows = [row for row in rows if row[0] not in out]
                found = [row[0] for row in rows]
                folders = [name for name in folders if name not in out]
            if self._budget is not None:
                self._budget(len(rows), disk_usage(fd, rows))
            folder = _Folder(path, names, parent, rules, [], folders)
            for key, start, stop in page_ranges(found):
                folder.pages.append(self._page(fd, folder, key, rows[start:stop], among))
        finally:
            os.close(fd)
        folder.waiting = folders[::-1]
        return folder

    def _without_forced(
        self, out: set[str], path: bytes, names: tuple[str, ...], found: tuple[list[str], list[str]], forced: set[str]
    ) -> set[str]:
        """Returns the ignored names of a folder, without those to include anyway."""
        if path in self._forced_folders:  # in an ignored folder only the forced names are included
            out = {*found[0], *found[1]}
        less = out - forced | self._rules.ignored_names(names, *found)
        self._forced_folders.update(join_path(path, os.fsencode(name)) for name in found[1] if name in out - less)
        return less

    def _page(self, fd: int, folder: _Folder, key: str, rows: list[StatRow], folders: set[str]) -> _Page:
        place = page_key(self._prefix, folder.path, key)
        encoded = encode_stats(rows)
        seen = self._store.cached_page(place)
        inside = [row[0] for row in rows if row[0] in folders] if folders else []
        if seen is not None and seen.stats == encoded:
            return _Page(place, [], encoded, inside, seen, is_same=True)
        page = _Page(place, rows, encoded, inside, seen, is_same=False)
        self._classify_files(fd, page)
        return page

    def _classify_files(self, fd: int, page: _Page) -> None:
        """Decides which files of a page are already stored, and has the others read."""
        old = self._old_entries(page)
        before = decode_stats(page.cached.stats) if page.cached and old else {}
        to_read: list[StatRow] = []
        for row in page.rows:
            known, entry = before.get(row[0]), old.get(row[0])
            if known is None or stat.S_ISDIR(row[1]) or not same_stat(row, known):
                entry = None
            if entry is None and stat.S_ISREG(row[1]):
                to_read.append(row)
            elif entry is None and not stat.S_ISDIR(row[1]):
                entry = special_entry(fd, StatEntry(*row))
            page.known_entries.append(entry)
        if to_read:
            page.pending_reads = self._pool.read(fd, to_read)

    def _old_entries(self, page: _Page) -> dict[str, TreeEntry]:
        if page.cached is None:
            return {}
        try:
            return {os.fsdecode(entry.name): entry for entry in decode_page(self._store.page(page.cached.page))}
        except (DamagedObjectError, MalformedObjectError):  # then everything is read again, which repairs it
            return {}

    # On the way up

    def _finish_folder(self, folder: _Folder) -> bytes:
        self._folders += folder.parent is not None
        digests = [self._finish_page(folder, page) for page in folder.pages]
        if len(digests) == 1:
            return digests[0]
        return self._store_tree(encode_pages(digests))

    def _store_tree(self, data: bytes) -> bytes:
        digest = digest_of(data)
        self._trees.append((digest, data))
        if len(self._trees) >= _TREES_AT_ONCE:
            self._flush_trees()
        return digest

    def _flush_trees(self) -> None:
        self._store.put_trees(self._trees)
        self._trees = []

    def _finish_page(self, folder: _Folder, page: _Page) -> bytes:
        below = b"".join([folder.digests[name] for name in page.folders])
        seen = page.cached
        if page.is_same and seen is not None:
            if seen.folder_digests == below and len(below) == DIGEST_BYTES * len(page.folders):
                self._add_counts(seen)
                return seen.page
            return self._page_with_new_folders(folder, page, seen, below)
        stats, entries = self._entries(folder, page)
        encoded = page.encoded if stats == page.rows else encode_stats(stats)
        return self._store_page(page, encoded, below, entries)

    def _page_with_new_folders(self, folder: _Folder, page: _Page, seen: CachedPage, below: bytes) -> bytes:
        """Stores a page whose own entries are unchanged, though something deeper down has changed."""
        old = self._old_entries(page)
        stats = list(decode_stats(seen.stats).values())
        if len(old) != len(stats):  # its object is damaged: read the page again
            fresh = self._reread_page(folder, page)
            return self._store_page(page, encode_stats(fresh[0]), below, fresh[1])
        entries: list[TreeEntry] = []
        for entry_stat in stats:
            if stat.S_ISDIR(entry_stat.mode):
                entries += self._folder_entry(folder, entry_stat)
            else:
                entries.append(old[entry_stat.name])
        return self._store_page(page, seen.stats, below, entries)

    def _reread_page(self, folder: _Folder, page: _Page) -> tuple[list[StatRow], list[TreeEntry]]:
        inside = set(page.folders)
        fd = self._root.open(folder.path)
        try:
            wanted = decode_stats(page.cached.stats) if page.cached else {}
            page.rows = [row for row in scan_folder(fd)[0] if row[0] in wanted]
            page.rows = [row for row in page.rows if stat.S_ISDIR(row[1]) == (row[0] in inside)]
            page.cached, page.known_entries = None, []
            self._classify_files(fd, page)
        finally:
            os.close(fd)
        return self._entries(folder, page)

    def _store_page(self, page: _Page, stats: bytes, folder_digests: bytes, entries: list[TreeEntry]) -> bytes:
        data = encode_page(entries)
        digest = digest_of(data)
        seen = CachedPage(stats, folder_digests, digest, *count_entries(entries))
        if page.cached is None or page.cached.page != digest:
            self._store_tree(data)
        if page.cached != seen:
            self._cached_pages.append((page.key, seen))
        self._add_counts(seen)
        return digest

    def _add_counts(self, cached: CachedPage) -> None:
        self._files += cached.files
        self._links += cached.links
        self._size += cached.size

    def _entries(self, folder: _Folder, page: _Page) -> tuple[list[StatRow], list[TreeEntry]]:
        """Returns the entries of a page, and their stats to cache."""
        results = iter(page.pending_reads.result() if page.pending_reads else ())
        settled_ns = racy_cutoff(self._started_ns)
        names = os.fsencode("/".join([row[0] for row in page.rows])).split(b"/")  # no rows give one empty name
        stats: list[StatRow] = []
        entries: list[TreeEntry] = []
        for row, known_entry, name in zip(page.rows, page.known_entries, names, strict=False):
            if stat.S_ISDIR(row[1]):
                stats.append(row)
                entries += self._folder_entry(folder, StatEntry(*row))
                continue
            found = known_entry or next(results)
            if isinstance(found, bytes):
                self._files_read += 1
                self._bytes_read += row[3]
                stats.append(row if row[5] < settled_ns else self._mark_if_racy(StatEntry(*row)))
                entries.append(TreeEntry(name, _FILE, row[1] & 0o7777, row[3], found))
                continue
            entry_stat, others = self._entry_from_result(folder, StatEntry(*row), found)
            stats.append(entry_stat)
            entries += others
        return stats, entries

    def _folder_entry(self, folder: _Folder, entry_stat: StatEntry) -> list[TreeEntry]:
        tree = folder.digests[entry_stat.name]
        if len(tree) == DIGEST_BYTES:
            return [TreeEntry(os.fsencode(entry_stat.name), EntryKind.FOLDER, entry_stat.mode & 0o7777, 0, tree)]
        return [self._skip(folder, entry_stat, tree)] if tree else []

    def _entry_from_result(
        self, folder: _Folder, entry_stat: StatEntry, found: TreeEntry | FileContent | UnreadableFile
    ) -> tuple[StatEntry, list[TreeEntry]]:
        if isinstance(found, FileContent):
            return self._entry_from_content(folder, found)
        if isinstance(found, UnreadableFile):
            gone = entry_stat._replace(ctime_ns=UNCERTAIN_CTIME)
            return gone, [] if found.gone else [self._skip(folder, entry_stat, found.why.encode())]
        if found.kind is EntryKind.SKIPPED:
            return entry_stat._replace(ctime_ns=UNCERTAIN_CTIME), [self._skip(folder, entry_stat, found.ref)]
        return self._mark_if_racy(entry_stat), [found]

    def _entry_from_content(self, folder: _Folder, content: FileContent) -> tuple[StatEntry, list[TreeEntry]]:
        entry_stat, kind, ref, torn = content
        self._files_read += 1
        self._bytes_read += entry_stat.size
        entry = TreeEntry(os.fsencode(entry_stat.name), kind, entry_stat.mode & 0o7777, entry_stat.size, ref, torn)
        if torn:
            self._torn += 1
            self._note(folder, entry_stat.name, "it kept changing while it was read: what is held may be torn")
            return entry_stat._replace(ctime_ns=UNCERTAIN_CTIME), [entry]
        return self._mark_if_racy(entry_stat), [entry]

    def _mark_if_racy(self, entry_stat: StatEntry) -> StatEntry:
        return (
            entry_stat._replace(ctime_ns=UNCERTAIN_CTIME)
            if is_racy(entry_stat.ctime_ns, self._started_ns)
            else entry_stat
        )

    def _skip(self, folder: _Folder, entry_stat: StatEntry, why: bytes) -> TreeEntry:
        self._skipped += 1
        self._note(folder, entry_stat.name, why.decode("utf-8", "replace"))
        return TreeEntry(os.fsencode(entry_stat.name), EntryKind.SKIPPED, entry_stat.mode & 0o7777, 0, why)

    def _note(self, folder: _Folder, name: str, why: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(PathNote(join_path(folder.path, os.fsencode(name)), why))
