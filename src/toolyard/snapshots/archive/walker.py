"""Walking a folder and making its tree of objects.

Folders are walked depth first; each is looked at, its changed files are handed to the reading pool, and its object is
made once those of the folders in it are. A page of a folder that looks as it did last time is not even taken apart.
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

from toolyard.files.root_folder import RootFolder, join
from toolyard.snapshots.archive.file_reader import Content, Objects, Unreadable
from toolyard.snapshots.archive.ignore_files import AcceptedRules
from toolyard.snapshots.archive.ignore_rules import IGNORE_FILE, Rules, our_own
from toolyard.snapshots.archive.read_pool import ReadingPool, Results
from toolyard.snapshots.archive.stat_cache import (
    UNCERTAIN,
    Look,
    Row,
    decode_looks,
    encode_looks,
    is_racy,
    same_look,
    scan,
    surely_settled,
    taken_up,
)
from toolyard.snapshots.archive.walk_keys import (
    page_place,
    root_prefix,
    special_entry,
    why_no_folder,
)
from toolyard.snapshots.store.index import Seen
from toolyard.snapshots.store.models import MOST_NOTES, Counts, Damaged, Note
from toolyard.snapshots.store.objects import (
    DIGEST_BYTES,
    Entry,
    Kind,
    Malformed,
    count,
    decode_page,
    digest_of,
    encode_page,
    encode_pages,
    page_cuts,
)

_LOOKAHEAD = 256
"""Folders whose files may still be being read while the walk goes on."""
_TREES_AT_ONCE = 64
"""Objects of folders that are handed over together."""
_FILE = Kind.FILE


Also = Callable[[bytes], set[str]]
"""Names in a folder that are held though accepted ignore rules leave them out."""
Budget = Callable[[int, int], None]
"""Told of each folder how many entries it has and how many bytes its files, before any is read."""


class Memory(Protocol):
    """What is known from earlier snapshots, and where new objects go."""

    def seen(self, place: bytes) -> Seen | None: ...

    def page(self, digest: bytes) -> bytes: ...

    def put_trees(self, objects: Objects) -> None: ...


@dataclass(slots=True)
class _Page:
    place: bytes
    looks: list[Row]
    """Empty when the page looks as it did."""
    encoded: bytes
    folders: list[str]
    seen: Seen | None
    is_same: bool
    kept: list[Entry | None] = field(default_factory=list[Entry | None])
    """Of each look the entry, unless it is a folder or is being read."""
    reading: Future[Results] | None = None


@dataclass(slots=True)
class _Folder:
    path: bytes
    names: tuple[str, ...]
    parent: _Folder | None
    rules: Rules
    pages: list[_Page]
    waiting: list[str]
    below: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The digest of each folder in it, or why there is none, which is never as long as a digest."""


@dataclass(slots=True)
class Walked:
    """What came of a walk."""

    tree: bytes
    counts: Counts
    notes: tuple[Note, ...]
    seen: list[tuple[bytes, Seen]]
    files_read: int
    bytes_read: int
    leftovers: list[bytes]
    """Temporary files of ours, of somebody who is writing or was killed."""


class Walk:
    """One walk through a root. Everything it needs from the past is asked of `memory`."""

    def __init__(
        self,
        root: RootFolder,
        memory: Memory,
        pool: ReadingPool,
        rules: Rules,
        check: Callable[[], None],
        *,
        accepted: AcceptedRules,
        budget: Budget | None = None,
        also: Also | None = None,
    ) -> None:
        self._root = root
        self._memory = memory
        self._pool = pool
        self._rules = rules
        self._accepted = accepted
        self._started_ns = time.time_ns()
        self._check = check
        self._budget = budget
        self._also = also
        self._taken_back: set[bytes] = set()
        self._prefix = root_prefix(root)
        self._files = self._folders = self._links = self._skipped = self._torn = self._size = 0
        self._files_read = self._bytes_read = 0
        self._notes: list[Note] = []
        self._leftovers: list[bytes] = []
        self._seen: list[tuple[bytes, Seen]] = []
        self._trees: list[tuple[bytes, bytes]] = []

    def run(self) -> Walked:
        """May raise SystemFault (the disk is full), and whatever `check` raises."""
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
                        folder.below[name] = why_no_folder(error)
                else:
                    closing.append(open_folders.pop())
                continue
            folder = closing.popleft()
            tree = self._finish(folder)
            if folder.parent is not None:
                folder.parent.below[folder.names[-1]] = tree
        self._hand_over()
        counts = Counts(self._files, self._folders, self._links, self._skipped, self._torn, self._size)
        read = (self._files_read, self._bytes_read)
        return Walked(tree, counts, tuple(self._notes), self._seen, *read, self._leftovers)

    # Going in

    def _enter(self, parent: _Folder | None, name: str) -> _Folder:
        self._check()
        path = join(parent.path, os.fsencode(name)) if parent else b""
        names = (*parent.names, name) if parent else ()
        fd = self._root.open(path)
        try:
            rows, folders = scan(fd)
            found = [row[0] for row in rows]
            rules = parent.rules if parent else self._rules
            rules = self._accepted.below(path, rules, fd if IGNORE_FILE in found else None)
            among = set(folders)
            files = [name for name in found if name not in among] if among else found
            out = rules.left_out(names, files, folders)
            out.discard(IGNORE_FILE)  # who writes one could hide that they did
            if self._also is not None and (out or path in self._taken_back):
                out = self._less(out, path, names, (files, folders), self._also(path))
            if own := our_own(found):
                self._leftovers += (join(path, os.fsencode(name)) for name in own)
                out |= own
            if out:
                rows = [row for row in rows if row[0] not in out]
                found = [row[0] for row in rows]
                folders = [name for name in folders if name not in out]
            if self._budget is not None:
                self._budget(len(rows), taken_up(fd, rows))
            folder = _Folder(path, names, parent, rules, [], folders)
            for key, start, stop in page_cuts(found):
                folder.pages.append(self._page(fd, folder, key, rows[start:stop], among))
        finally:
            os.close(fd)
        folder.waiting = folders[::-1]
        return folder

    def _less(
        self, out: set[str], path: bytes, names: tuple[str, ...], found: tuple[list[str], list[str]], also: set[str]
    ) -> set[str]:
        """What is left out of a folder, less what is to be held all the same."""
        if path in self._taken_back:  # of a folder that is left out only that is held, and nothing else in it
            out = {*found[0], *found[1]}
        less = out - also | self._rules.left_out(names, *found)
        self._taken_back.update(join(path, os.fsencode(name)) for name in found[1] if name in out - less)
        return less

    def _page(self, fd: int, folder: _Folder, key: str, rows: list[Row], folders: set[str]) -> _Page:
        place = page_place(self._prefix, folder.path, key)
        encoded = encode_looks(rows)
        seen = self._memory.seen(place)
        inside = [row[0] for row in rows if row[0] in folders] if folders else []
        if seen is not None and seen.looks == encoded:
            return _Page(place, [], encoded, inside, seen, is_same=True)
        page = _Page(place, rows, encoded, inside, seen, is_same=False)
        self._sort_out(fd, page)
        return page

    def _sort_out(self, fd: int, page: _Page) -> None:
        """Decide which files of a page are held already, and have the others read."""
        old = self._old_entries(page)
        before = decode_looks(page.seen.looks) if page.seen and old else {}
        to_read: list[Row] = []
        for row in page.looks:
            known, entry = before.get(row[0]), old.get(row[0])
            if known is None or stat.S_ISDIR(row[1]) or not same_look(row, known):
                entry = None
            if entry is None and stat.S_ISREG(row[1]):
                to_read.append(row)
            elif entry is None and not stat.S_ISDIR(row[1]):
                entry = special_entry(fd, Look(*row))
            page.kept.append(entry)
        if to_read:
            page.reading = self._pool.read(fd, to_read)

    def _old_entries(self, page: _Page) -> dict[str, Entry]:
        if page.seen is None:
            return {}
        try:
            return {os.fsdecode(entry.name): entry for entry in decode_page(self._memory.page(page.seen.page))}
        except (Damaged, Malformed):  # then everything is read again, which mends it
            return {}

    # Coming out

    def _finish(self, folder: _Folder) -> bytes:
        self._folders += folder.parent is not None
        digests = [self._finish_page(folder, page) for page in folder.pages]
        if len(digests) == 1:
            return digests[0]
        return self._hold(encode_pages(digests))

    def _hold(self, data: bytes) -> bytes:
        digest = digest_of(data)
        self._trees.append((digest, data))
        if len(self._trees) >= _TREES_AT_ONCE:
            self._hand_over()
        return digest

    def _hand_over(self) -> None:
        self._memory.put_trees(self._trees)
        self._trees = []

    def _finish_page(self, folder: _Folder, page: _Page) -> bytes:
        below = b"".join([folder.below[name] for name in page.folders])
        seen = page.seen
        if page.is_same and seen is not None:
            if seen.below == below and len(below) == DIGEST_BYTES * len(page.folders):
                self._count(seen)
                return seen.page
            return self._with_other_folders(folder, page, seen, below)
        looks, entries = self._entries(folder, page)
        encoded = page.encoded if looks == page.looks else encode_looks(looks)
        return self._keep_page(page, encoded, below, entries)

    def _with_other_folders(self, folder: _Folder, page: _Page, seen: Seen, below: bytes) -> bytes:
        """A page whose own entries are as they were, though something deeper down has changed."""
        old = self._old_entries(page)
        looks = list(decode_looks(seen.looks).values())
        if len(old) != len(looks):  # its object is damaged: look again, from nothing
            fresh = self._again(folder, page)
            return self._keep_page(page, encode_looks(fresh[0]), below, fresh[1])
        entries: list[Entry] = []
        for look in looks:
            if stat.S_ISDIR(look.mode):
                entries += self._folder_entry(folder, look)
            else:
                entries.append(old[look.name])
        return self._keep_page(page, seen.looks, below, entries)

    def _again(self, folder: _Folder, page: _Page) -> tuple[list[Row], list[Entry]]:
        inside = set(page.folders)
        fd = self._root.open(folder.path)
        try:
            wanted = decode_looks(page.seen.looks) if page.seen else {}
            page.looks = [row for row in scan(fd)[0] if row[0] in wanted]
            page.looks = [row for row in page.looks if stat.S_ISDIR(row[1]) == (row[0] in inside)]
            page.seen, page.kept = None, []
            self._sort_out(fd, page)
        finally:
            os.close(fd)
        return self._entries(folder, page)

    def _keep_page(self, page: _Page, looks: bytes, below: bytes, entries: list[Entry]) -> bytes:
        data = encode_page(entries)
        digest = digest_of(data)
        seen = Seen(looks, below, digest, *count(entries))
        if page.seen is None or page.seen.page != digest:
            self._hold(data)
        if page.seen != seen:
            self._seen.append((page.place, seen))
        self._count(seen)
        return digest

    def _count(self, seen: Seen) -> None:
        self._files += seen.files
        self._links += seen.links
        self._size += seen.size

    def _entries(self, folder: _Folder, page: _Page) -> tuple[list[Row], list[Entry]]:
        """The entries of a page, and their looks as they are to be remembered."""
        results = iter(page.reading.result() if page.reading else ())
        settled_ns = surely_settled(self._started_ns)
        names = os.fsencode("/".join([row[0] for row in page.looks])).split(b"/")  # of no rows, one empty name
        looks: list[Row] = []
        entries: list[Entry] = []
        for row, kept, name in zip(page.looks, page.kept, names, strict=False):
            if stat.S_ISDIR(row[1]):
                looks.append(row)
                entries += self._folder_entry(folder, Look(*row))
                continue
            found = kept or next(results)
            if isinstance(found, bytes):
                self._files_read += 1
                self._bytes_read += row[3]
                looks.append(row if row[5] < settled_ns else self._remembered(Look(*row)))
                entries.append(Entry(name, _FILE, row[1] & 0o7777, row[3], found))
                continue
            look, others = self._other_entry(folder, Look(*row), found)
            looks.append(look)
            entries += others
        return looks, entries

    def _folder_entry(self, folder: _Folder, look: Look) -> list[Entry]:
        tree = folder.below[look.name]
        if len(tree) == DIGEST_BYTES:
            return [Entry(os.fsencode(look.name), Kind.FOLDER, look.mode & 0o7777, 0, tree)]
        return [self._skip(folder, look, tree)] if tree else []

    def _other_entry(
        self, folder: _Folder, look: Look, found: Entry | Content | Unreadable
    ) -> tuple[Look, list[Entry]]:
        if isinstance(found, Content):
            return self._read_entry(folder, found)
        if isinstance(found, Unreadable):
            gone = look._replace(touched_ns=UNCERTAIN)
            return gone, [] if found.gone else [self._skip(folder, look, found.why.encode())]
        if found.kind is Kind.SKIPPED:
            return look._replace(touched_ns=UNCERTAIN), [self._skip(folder, look, found.ref)]
        return self._remembered(look), [found]

    def _read_entry(self, folder: _Folder, content: Content) -> tuple[Look, list[Entry]]:
        look, kind, ref, torn = content
        self._files_read += 1
        self._bytes_read += look.size
        entry = Entry(os.fsencode(look.name), kind, look.mode & 0o7777, look.size, ref, torn)
        if torn:
            self._torn += 1
            self._note(folder, look.name, "it kept changing while it was read: what is held may be torn")
            return look._replace(touched_ns=UNCERTAIN), [entry]
        return self._remembered(look), [entry]

    def _remembered(self, look: Look) -> Look:
        return look._replace(touched_ns=UNCERTAIN) if is_racy(look.touched_ns, self._started_ns) else look

    def _skip(self, folder: _Folder, look: Look, why: bytes) -> Entry:
        self._skipped += 1
        self._note(folder, look.name, why.decode("utf-8", "replace"))
        return Entry(os.fsencode(look.name), Kind.SKIPPED, look.mode & 0o7777, 0, why)

    def _note(self, folder: _Folder, name: str, why: str) -> None:
        if len(self._notes) < MOST_NOTES:
            self._notes.append(Note(join(folder.path, os.fsencode(name)), why))
