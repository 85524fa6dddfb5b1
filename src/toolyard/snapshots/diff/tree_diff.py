"""Compares two trees. Folders with equal digests are equal, so only changed parts are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolyard.files.root_folder import join_path
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.object_reader import TreeReader
from toolyard.snapshots.store.objects import EntryKind, TreeEntry


class ChangeType(StrEnum):
    """How a path changed."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MODE = "mode"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that differs. An added or removed folder is listed together with everything in it."""

    what: ChangeType
    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None
    old_path: bytes | None = None
    """The former path of a renamed file."""
    similarity: float = 1.0
    """Of a renamed file's two contents, from 0 to 1."""
    text: str = ""
    """A unified diff, or a description if none can be shown."""


OnDamage = Callable[[bytes, DamagedObjectError], None]


Pair = tuple[TreeEntry | None, TreeEntry | None]
"""The entry of one path on either side."""


Skip = Callable[[bytes, Pair], bool]
"""Returns whether a difference at this path, and everything beneath it, is left out."""


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
    """Yields every difference at and beneath `path`, whose entries are `pair`; a folder comes before its content.

    With `descend_into_added` false the content of a new folder is not listed. With `on_damage`, a folder that cannot
    be read is passed to it and left out; otherwise DamagedObjectError is raised. `skip` is not asked about `path`
    itself.
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
    """Yields how the entry itself differs, without its content."""
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
