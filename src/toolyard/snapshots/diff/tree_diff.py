"""What differs between two trees. Equal digests are equal folders, so only what changed is ever looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.files.root_folder import join_path
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.object_reader import TreeReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry


class ChangeType(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MODE = "mode"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that differs. A folder that came or went is told with everything in it."""

    what: ChangeType
    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None
    old_path: bytes | None = None
    """Where a renamed file was."""
    similarity: float = 1.0
    """Of a renamed file's two contents, from 0 to 1."""
    text: str = ""
    """A unified diff, or a sentence where none can be shown."""


OnDamage = Callable[[bytes, DamagedObjectError], None]


Pair = tuple[TreeEntry | None, TreeEntry | None]
"""The entry of one path on either side."""


Skip = Callable[[bytes, Pair], bool]
"""Whether what differs at this path, and everything beneath, is passed over."""


def compare_trees(
    old: TreeReader,
    new: TreeReader,
    pair: Pair,
    path: bytes = b"",
    on_damage: OnDamage | None = None,
    *,
    descend_into_added: bool = True,
    skip: Skip | None = None,
) -> Iterator[PathChange]:
    """Every difference at and beneath `path`, where `pair` stands, a folder before what it holds.

    With `descend_into_added` false a new folder is told without what it holds. With `on_damage`, a folder that cannot be read
    is told to it and left out; otherwise Damaged is raised. `skip` is not asked about `path` itself.
    """
    waiting: list[tuple[bytes, Pair]] = [(path, pair)]
    while waiting:
        path, (before, after) = waiting.pop()
        yield from _entry_changes(path, before, after)
        one = before if before is not None and before.kind is EntryKind.FOLDER else None
        two = after if after is not None and after.kind is EntryKind.FOLDER else None
        if (one is None and two is None) or (one is not None and two is not None and one.ref == two.ref):
            continue
        if one is None and not descend_into_added:
            continue
        try:
            had = {entry.name: entry for entry in old.entries(one.ref)} if one else {}
            has = {entry.name: entry for entry in new.entries(two.ref)} if two else {}
        except DamagedObjectError as damage:
            if on_damage is None:
                raise
            on_damage(path, damage)
            continue
        for name in sorted(had.keys() | has.keys(), reverse=True):
            was, is_now = had.get(name), has.get(name)
            below = (join_path(path, name), (was, is_now))
            if was != is_now and not (skip is not None and skip(*below)):
                waiting.append(below)


def _entry_changes(path: bytes, before: TreeEntry | None, after: TreeEntry | None) -> Iterator[PathChange]:
    """How the entry itself differs, without what lies in it."""
    if before is None or after is None:
        if after is not None:
            yield PathChange(ChangeType.ADDED, path, None, after)
        elif before is not None:
            yield PathChange(ChangeType.REMOVED, path, before, None)
        return
    was_folder, is_folder = before.kind is EntryKind.FOLDER, after.kind is EntryKind.FOLDER
    if was_folder != is_folder:
        yield PathChange(ChangeType.REMOVED, path, before, None)
        yield PathChange(ChangeType.ADDED, path, None, after)
    elif not was_folder and (before.kind, before.ref) != (after.kind, after.ref):
        yield PathChange(ChangeType.CHANGED, path, before, after)
    elif before.mode != after.mode:
        yield PathChange(ChangeType.MODE, path, before, after)
