"""What a merge brings, as a diff of our own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from toolyard.sharing.merge_plan import Item
from toolyard.snapshots.diff.text_diff import DiffLimits, with_texts
from toolyard.snapshots.diff.tree_diff import Change, What
from toolyard.snapshots.store.objects import Entry, Kind, digest_of

_MODE = 0o644


@dataclass(frozen=True, slots=True)
class _Shown:
    change: Change
    data: bytes = b""
    """What would be there."""


def changes_of(
    items: Iterable[Item], content: Callable[[Entry], bytes], suffix: str, limits: DiffLimits
) -> tuple[Change, ...]:
    """The changes with their texts. `content` reads a version of ours; `suffix` ends what goes beside a file."""
    shown = [_shown(item, os.fsencode(suffix)) for item in items if item.is_change]
    written = {one.change.path: one.data for one in shown}
    changes = [one.change for one in shown]
    return with_texts(changes, lambda _, entry: content(entry), lambda path, _: written[path], limits)


def _shown(item: Item, suffix: bytes) -> _Shown:
    decision, ours = item.decision, item.ours
    if item.removes:
        return _Shown(Change(What.REMOVED, item.path, ours, None))
    if item.old_path is not None:
        return _Shown(Change(What.RENAMED, item.path, ours, ours, item.old_path))
    mode = decision.mode if decision.mode is not None else ours.mode if ours is not None else _MODE
    if decision.data is None:
        after = ours._replace(mode=mode) if ours is not None else None
        return _Shown(Change(What.MODE, item.path, ours, after))
    path = item.path + suffix if decision.beside else item.path
    before = None if decision.beside else ours
    after = Entry(os.path.basename(path), Kind.FILE, mode, len(decision.data), digest_of(decision.data))
    return _Shown(Change(What.ADDED if before is None else What.CHANGED, path, before, after), decision.data)
