"""Finds renamed files: first those with equal content, then those with similar content."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from toolyard.core.limits import KIB
from toolyard.snapshots.diff.tree_diff import ChangeType, PathChange
from toolyard.snapshots.store.objects import TreeEntry

_MOST_COMPARED = 60
"""Files on either side that are compared with each other: the work is quadratic."""
_MOST_BYTES = 256 * KIB
_LEAST_ALIKE = 0.5

ReadContent = Callable[[bytes, TreeEntry], bytes]
"""Reads a file's bytes, by path and entry."""


def find_renames(changes: Sequence[PathChange], old: ReadContent, new: ReadContent) -> list[PathChange]:
    """Returns the changes, with a removed and an added file that belong together merged into one rename."""
    removed = [
        change for change in changes if change.what is ChangeType.REMOVED and _is_rename_candidate(change.before)
    ]
    added = [change for change in changes if change.what is ChangeType.ADDED and _is_rename_candidate(change.after)]
    if not removed or not added:
        return list(changes)
    pairs = _pair_same_content(removed, added)
    taken = {id(one) for one, _ in pairs.values()}
    left_removed = [change for change in removed if id(change) not in taken]
    left_added = [change for change in added if id(change) not in pairs]
    pairs.update(_pair_similar(left_removed, left_added, old, new))
    gone = {id(one) for one, _ in pairs.values()}
    merged: list[PathChange] = []
    for change in changes:
        if id(change) in gone:
            continue
        if id(change) in pairs:
            source, likeness = pairs[id(change)]
            change = replace(
                change, what=ChangeType.RENAMED, before=source.before, old_path=source.path, similarity=likeness
            )
        merged.append(change)
    return merged


def _is_rename_candidate(entry: TreeEntry | None) -> bool:
    return entry is not None and entry.is_file and entry.size > 0


def _pair_same_content(
    removed: Sequence[PathChange], added: Sequence[PathChange]
) -> dict[int, tuple[PathChange, float]]:
    """Maps the id of an added change to the removed one with equal content. Files that kept their name come first."""
    sources: dict[bytes, list[PathChange]] = defaultdict(list)
    for change in removed:
        if change.before is not None:
            sources[change.before.ref].append(change)
    pairs: dict[int, tuple[PathChange, float]] = {}
    for wants_name in (True, False):
        for change in added:
            if change.after is None or id(change) in pairs:
                continue
            fitting = sources[change.after.ref]
            chosen = next((one for one in fitting if not wants_name or _base_name(one) == _base_name(change)), None)
            if chosen is not None:
                fitting.remove(chosen)
                pairs[id(change)] = (chosen, 1.0)
    return pairs


def _base_name(change: PathChange) -> bytes:
    return os.path.basename(change.path)


def _pair_similar(
    removed: Sequence[PathChange], added: Sequence[PathChange], old: ReadContent, new: ReadContent
) -> dict[int, tuple[PathChange, float]]:
    lines_of_old = [(one, _lines(old(one.path, one.before))) for one in _comparable(removed) if one.before]
    lines_of_new = [(one, _lines(new(one.path, one.after))) for one in _comparable(added) if one.after]
    scored = [
        (score, _base_name(one) == _base_name(other), one, other)
        for one, lines in lines_of_old
        for other, others in lines_of_new
        if (score := _similarity(lines, others)) >= _LEAST_ALIKE
    ]
    scored.sort(key=lambda row: (row[0], row[1]), reverse=True)
    pairs: dict[int, tuple[PathChange, float]] = {}
    used: set[int] = set()
    for score, _, one, other in scored:
        if id(one) not in used and id(other) not in pairs:
            used.add(id(one))
            pairs[id(other)] = (one, score)
    return pairs


def _comparable(changes: Sequence[PathChange]) -> list[PathChange]:
    small = [change for change in changes if _size(change) <= _MOST_BYTES]
    return small[:_MOST_COMPARED]


def _size(change: PathChange) -> int:
    return max(entry.size for entry in (change.before, change.after) if entry is not None)


def _lines(data: bytes) -> tuple[Counter[bytes], int]:
    return Counter(data.splitlines(keepends=True)), len(data)


def _similarity(one: tuple[Counter[bytes], int], other: tuple[Counter[bytes], int]) -> float:
    """Returns the share of bytes in lines that both have."""
    (lines, size), (others, other_size) = one, other
    most = 2 * min(size, other_size) / (size + other_size)
    if most < _LEAST_ALIKE:
        return 0.0
    common = sum(len(line) * min(count, others[line]) for line, count in lines.items() if line in others)
    return 2 * common / (size + other_size)
