"""Adds readable text to changes: a unified diff for text files, a short description for others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from toolyard.core.limits import MIB
from toolyard.files.content.diffs import unified_diff
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode
from toolyard.files.os_errors import printable_name
from toolyard.snapshots.diff.collapse_git import CollapsedGitFolder
from toolyard.snapshots.diff.tree_diff import ChangeType, PathChange
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.objects import EntryKind, TreeEntry

_MOST_BYTES = 1 * MIB
"""Files up to this size are compared as text; for bigger ones only the sizes are shown."""

ReadContent = Callable[[bytes, TreeEntry], bytes]


@dataclass(frozen=True, slots=True)
class DiffLimits:
    """Limits of a diff."""

    changes: int = 10_000
    """Changes that are listed; all of them are counted."""
    chars_each: int = 8_000
    chars: int = 200_000
    """Characters of all texts together. Later changes are listed without text."""
    collapse_git: bool = False
    """Whether changes in `.git` folders are counted instead of listed."""
    skip_git: bool = False
    """Whether to leave out repositories that a restore would not touch."""


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences between two sides."""

    changes: tuple[PathChange, ...]
    total: int
    """The number of all changes, listed or not."""
    collapsed: tuple[CollapsedGitFolder, ...] = ()
    skipped_repositories: tuple[bytes, ...] = ()
    """Repositories that were left out and differ."""

    @property
    def omitted_count(self) -> int:
        """Returns the number of changes beyond the limit."""
        return self.total - len(self.changes) - sum(folder.count for folder in self.collapsed)


def with_texts(
    changes: Iterable[PathChange], old: ReadContent, new: ReadContent, limits: DiffLimits
) -> tuple[PathChange, ...]:
    """Returns the changes with their texts, within the limits."""
    result: list[PathChange] = []
    room = limits.chars
    for change in changes:
        if room > 0:
            change = replace(change, text=_change_text(change, old, new, min(room, limits.chars_each)))
            room -= len(change.text)
        result.append(change)
    return tuple(result)


def _change_text(change: PathChange, old: ReadContent, new: ReadContent, chars: int) -> str:
    before, after = change.before, change.after
    if change.what is ChangeType.MODE and before and after:
        return f"mode {before.mode:04o} → {after.mode:04o}"
    if any(entry is not None and not entry.is_file for entry in (before, after)):
        return " → ".join(_describe_entry(entry) for entry in (before, after) if entry is not None)
    if change.what is ChangeType.RENAMED and before and after and before.ref == after.ref:
        return ""
    sizes = " → ".join(f"{entry.size:,}" for entry in (before, after) if entry is not None)
    if any(entry is not None and entry.size > _MOST_BYTES for entry in (before, after)):
        return f"too big to compare: {sizes} bytes"
    try:
        was = old(change.old_path or change.path, before) if before else b""
        is_now = new(change.path, after) if after else b""
    except (DamagedObjectError, OSError) as error:
        return f"cannot be compared: {error}"
    name = printable_name(os.fsdecode(change.path))
    if not all(_is_text(data, name) for data in (was, is_now)):
        return f"binary: {sizes} bytes"
    old_name = printable_name(os.fsdecode(change.old_path or change.path))
    headings = (f"--- a/{old_name}" if before else "--- /dev/null", f"+++ b/{name}" if after else "+++ /dev/null")
    return unified_diff(decode(was).printable, decode(is_now).printable, name, chars, headings=headings)


def _is_text(data: bytes, name: str) -> bool:
    return sniff(data, name).category in {Category.TEXT, Category.NOTEBOOK}


def _describe_entry(entry: TreeEntry) -> str:
    if entry.kind is EntryKind.LINK:
        return f"link to {printable_name(os.fsdecode(entry.ref))}"
    if entry.kind is EntryKind.SKIPPED:
        return f"not held ({printable_name(os.fsdecode(entry.ref))})"
    return "folder" if entry.kind is EntryKind.FOLDER else f"file of {entry.size:,} bytes"
