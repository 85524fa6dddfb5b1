"""Changes as people read them: unified text where there is text, a sentence where there is none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from toolyard.core.limits import MIB
from toolyard.files.content.diffs import unified
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode
from toolyard.files.os_errors import shown
from toolyard.snapshots.diff.collapse_git import Folded
from toolyard.snapshots.diff.tree_diff import Change, What
from toolyard.snapshots.store.models import Damaged
from toolyard.snapshots.store.objects import Entry, Kind

_MOST_BYTES = 1 * MIB
"""Of a file whose text is compared; a bigger one is told by its sizes."""

Content = Callable[[bytes, Entry], bytes]


@dataclass(frozen=True, slots=True)
class DiffLimits:
    changes: int = 10_000
    """Changes that are told; how many there are is counted all the same."""
    chars_each: int = 8_000
    chars: int = 200_000
    """Of all texts together. What comes later is told without its text."""
    folds_git: bool = False
    """Whether what lies in `.git` folders is counted instead of told."""
    leaves_git: bool = False
    """Whether repositories are passed over that a restore would leave as they are."""


@dataclass(frozen=True, slots=True)
class Diff:
    changes: tuple[Change, ...]
    total: int
    """Of all changes, told or not."""
    folded: tuple[Folded, ...] = ()
    left: tuple[bytes, ...] = ()
    """Repositories that were passed over and differ."""

    @property
    def left_off(self) -> int:
        """Changes beyond what was to be told."""
        return self.total - len(self.changes) - sum(each.count for each in self.folded)


def with_texts(changes: Iterable[Change], old: Content, new: Content, limits: DiffLimits) -> tuple[Change, ...]:
    told: list[Change] = []
    room = limits.chars
    for change in changes:
        if room > 0:
            change = replace(change, text=_text(change, old, new, min(room, limits.chars_each)))
            room -= len(change.text)
        told.append(change)
    return tuple(told)


def _text(change: Change, old: Content, new: Content, chars: int) -> str:
    before, after = change.before, change.after
    if change.what is What.MODE and before and after:
        return f"mode {before.mode:04o} → {after.mode:04o}"
    if any(entry is not None and not entry.is_file for entry in (before, after)):
        return " → ".join(_described(entry) for entry in (before, after) if entry is not None)
    if change.what is What.RENAMED and before and after and before.ref == after.ref:
        return ""
    sizes = " → ".join(f"{entry.size:,}" for entry in (before, after) if entry is not None)
    if any(entry is not None and entry.size > _MOST_BYTES for entry in (before, after)):
        return f"too big to compare: {sizes} bytes"
    try:
        was = old(change.old_path or change.path, before) if before else b""
        is_now = new(change.path, after) if after else b""
    except (Damaged, OSError) as error:
        return f"cannot be compared: {error}"
    name = shown(os.fsdecode(change.path))
    if not all(_is_text(data, name) for data in (was, is_now)):
        return f"binary: {sizes} bytes"
    old_name = shown(os.fsdecode(change.old_path or change.path))
    headings = (f"--- a/{old_name}" if before else "--- /dev/null", f"+++ b/{name}" if after else "+++ /dev/null")
    return unified(decode(was).printable, decode(is_now).printable, name, chars, headings=headings)


def _is_text(data: bytes, name: str) -> bool:
    return sniff(data, name).category in {Category.TEXT, Category.NOTEBOOK}


def _described(entry: Entry) -> str:
    if entry.kind is Kind.LINK:
        return f"link to {shown(os.fsdecode(entry.ref))}"
    if entry.kind is Kind.SKIPPED:
        return f"not held ({shown(os.fsdecode(entry.ref))})"
    return "folder" if entry.kind is Kind.FOLDER else f"file of {entry.size:,} bytes"
