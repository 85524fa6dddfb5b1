"""Counts what was written below some folders since a point in time, in slices of time.

Every object whose ctime is not before the start counts: a program can set a file's mtime back, but not its ctime. A
file counts by the blocks it occupies, so holes cost nothing, and only once, however many names it has. An older file
that the run only appended to counts in full. Links are not followed. Names that vanish during the count are skipped.

A `UsageCounter` borrows the folders' handles and owns those it opens; `close` closes them.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

_BLOCK: Final = 512  # the unit of st_blocks, on every file system
_MAX_DEPTH: Final = 64  # two handles are open for each level
_BUDGET_SECONDS: Final = 1.0  # of counting, over all slices; about 200,000 names
_ENTRIES_PER_CLOCK_CHECK: Final = 32
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UsageCounter:
    """Counts the bytes and files that changed below `folders` since `since_ns`."""

    def __init__(self, folders: Sequence[int], since_ns: int) -> None:
        self._since = since_ns
        self._spent_seconds = 0.0
        self._counted_links: set[tuple[int, int]] = set()
        self._steps = self._walk(folders)
        self.bytes = 0
        self.files = 0
        self.is_done = False
        self.is_complete = True
        """False if something changed that could not be read, or the count ran out of time."""

    def count_for(self, seconds: float) -> None:
        """Counts for about `seconds`."""
        began = time.monotonic()
        for number, _ in enumerate(self._steps, 1):
            if number % _ENTRIES_PER_CLOCK_CHECK == 0 and time.monotonic() - began > seconds:
                break
        else:
            self.is_done = True
        self._spent_seconds += time.monotonic() - began
        if not self.is_done and self._spent_seconds > _BUDGET_SECONDS:
            self.is_complete = False
            self.is_done = True
        if self.is_done:
            self.close()

    def close(self) -> None:
        self._steps.close()

    def _walk(self, folders: Sequence[int]) -> Generator[None]:
        for folder in folders:
            changed = os.fstat(folder).st_ctime_ns >= self._since
            yield from self._count_folder(os.dup(folder), 1, changed=changed)

    def _count_folder(self, fd: int, depth: int, *, changed: bool) -> Generator[None]:
        """Counts the content of the folder `fd` and closes it. `changed`: the run may have made it unreadable."""
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    yield
                    about = self._stat_entry(entry, closed=changed)
                    below = None if about is None else self._count_entry(entry.name, about, fd, depth)
                    if about is not None and below is not None:
                        yield from self._count_folder(below, depth + 1, changed=about.st_ctime_ns >= self._since)
        except OSError:
            self.is_complete = False  # reading the folder failed part-way
        finally:
            os.close(fd)

    def _stat_entry(self, entry: os.DirEntry[str], *, closed: bool) -> os.stat_result | None:
        try:
            return entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError:
            self.is_complete = self.is_complete and not closed
            return None

    def _count_entry(self, name: str, about: os.stat_result, parent: int, depth: int) -> int | None:
        """Counts one object; returns a handle if it is a folder to descend into."""
        changed = about.st_ctime_ns >= self._since
        folder = stat.S_ISDIR(about.st_mode)
        if changed and (folder or about.st_nlink == 1 or self._is_first(about)):
            self.bytes += about.st_blocks * _BLOCK
            self.files += 1
        if not folder:
            return None
        if depth >= _MAX_DEPTH:
            self.is_complete = False
            return None
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError:
            # A folder that was unreadable before the run hides nothing of it; one that became so since may.
            self.is_complete = self.is_complete and not changed
            return None

    def _is_first(self, about: os.stat_result) -> bool:
        identity = (about.st_dev, about.st_ino)
        if identity in self._counted_links:
            return False
        self._counted_links.add(identity)
        return True


def unlinked_bytes(processes: Iterable[int], device: int, seconds: float) -> int:
    """Returns the bytes in unlinked files of one device that are open in one of these processes."""
    deadline = time.monotonic() + seconds
    sizes: dict[int, int] = {}
    for about in _open_files(processes):
        if about.st_nlink == 0 and about.st_dev == device and stat.S_ISREG(about.st_mode):
            sizes[about.st_ino] = about.st_blocks * _BLOCK
        if time.monotonic() > deadline:
            break
    return sum(sizes.values())


def _open_files(processes: Iterable[int]) -> Iterator[os.stat_result]:
    for pid in processes:
        folder = f"/proc/{pid}/fd"
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        yield entry.stat()
                    except OSError:
                        continue  # closed meanwhile
        except OSError:
            continue  # it has exited, or belongs to another user
