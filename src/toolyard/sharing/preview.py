"""Shows the effect of a merge as a diff of our own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from toolyard.sharing.merge_plan import MergeItem
from toolyard.snapshots.diff.text_diff import DiffLimits, with_texts
from toolyard.snapshots.diff.tree_diff import ChangeType, PathChange
from toolyard.snapshots.store.objects import EntryKind, TreeEntry, digest_of

_MODE = 0o644


@dataclass(frozen=True, slots=True)
class _PreviewChange:
    change: PathChange
    data: bytes = b""
    """The content after the merge."""


def preview_changes(
    items: Iterable[MergeItem], content: Callable[[TreeEntry], bytes], suffix: str, limits: DiffLimits
) -> tuple[PathChange, ...]:
    """Returns the changes with their texts. `content` reads our version of a file; `suffix` ends the names of second
    files.
    """
    shown = [_preview_change(item, os.fsencode(suffix)) for item in items if item.is_change]
    written = {one.change.path: one.data for one in shown}
    changes = [one.change for one in shown]
    return with_texts(changes, lambda _, entry: content(entry), lambda path, _: written[path], limits)


def _preview_change(item: MergeItem, suffix: bytes) -> _PreviewChange:
    decision, ours = item.decision, item.ours
    if item.removes:
        return _PreviewChange(PathChange(ChangeType.REMOVED, item.path, ours, None))
    if item.old_path is not None:
        return _PreviewChange(PathChange(ChangeType.RENAMED, item.path, ours, ours, item.old_path))
    mode = decision.mode if decision.mode is not None else ours.mode if ours is not None else _MODE
    if decision.data is None:
        after = ours._replace(mode=mode) if ours is not None else None
        return _PreviewChange(PathChange(ChangeType.MODE, item.path, ours, after))
    path = item.path + suffix if decision.beside else item.path
    before = None if decision.beside else ours
    after = TreeEntry(os.path.basename(path), EntryKind.FILE, mode, len(decision.data), digest_of(decision.data))
    return _PreviewChange(
        PathChange(ChangeType.ADDED if before is None else ChangeType.CHANGED, path, before, after), decision.data
    )
