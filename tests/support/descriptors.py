"""What this process has open, for tests of what leaves nothing behind."""

from __future__ import annotations

import contextlib
import os

# The library that watches folders lets go of these in a thread of its own, which nobody can wait for. A test that ran
# before in the same process may have had one.
_OF_WATCHERS = frozenset({"anon_inode:inotify", "anon_inode:[eventpoll]", "anon_inode:[eventfd]"})


def open_now() -> set[tuple[str, str]]:
    """Numbers and what they stand for."""
    found: set[tuple[str, str]] = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that the list was read with
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return {each for each in found if each[1] not in _OF_WATCHERS}


def count_open() -> int:
    return len(open_now())
