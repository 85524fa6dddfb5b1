"""Formats snapshots and their differences: as fields for programs and as lines of text."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolyard.files.os_errors import printable_name
from toolyard.snapshots import (
    ChangeType,
    CollapsedGitFolder,
    Diff,
    EntryKind,
    PathChange,
    PathNote,
    RestoreResult,
    Snapshot,
    TreeEntry,
)

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_KINDS = {EntryKind.FOLDER: "folder", EntryKind.LINK: "link", EntryKind.SKIPPED: "not held"}
MARKS = {
    ChangeType.ADDED: "A",
    ChangeType.REMOVED: "D",
    ChangeType.CHANGED: "M",
    ChangeType.MODE: "m",
    ChangeType.RENAMED: "R",
}
_LEFT_SHOWN = 3
_BY_HAND = "by hand"
"""Label of a snapshot that the user took, not an agent."""
_NS = 1_000_000_000
_SLASH = ord("/")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A snapshot with its number of changes."""

    snapshot: Snapshot
    changes: int | None
    """Changes since the previous snapshot; None for the first."""

    def fields(self) -> dict[str, Any]:
        return {**snapshot_fields(self.snapshot), "changes": self.changes}

    def line(self, when: str = "") -> str:
        """Formats one row. `when` is added after the age."""
        snapshot = self.snapshot
        changes = "first" if self.changes is None else pluralize(self.changes, "change")
        files = pluralize(snapshot.counts.files, "file")
        ago = f"{relative_age(snapshot.time_ns):>14}{when}"
        author = printable_name(author_and_reason(snapshot))
        return f"{snapshot.id}  {ago}  {files:>12}  {changes:>11}  {author}".rstrip()


def without_implied_folders(changes: Sequence[PathChange]) -> list[PathChange]:
    """Drops added or removed folders whose content is listed anyway."""
    above = {change.path[:at] for change in changes for at, byte in enumerate(change.path) if byte == _SLASH}
    return [change for change in changes if not (_is_folder(change) and change.path in above)]


def _is_folder(change: PathChange) -> bool:
    entry = change.after or change.before
    return (
        entry is not None and entry.kind is EntryKind.FOLDER and change.what in {ChangeType.ADDED, ChangeType.REMOVED}
    )


def changed_paths(diff: Diff) -> Iterator[str]:
    """Yields every changed path once; for a renamed file both. Changes in a collapsed folder count as the folder."""
    for change in without_implied_folders(diff.changes):
        yield from (printable_name(os.fsdecode(path)) for path in (change.old_path, change.path) if path is not None)
    yield from (printable_name(os.fsdecode(git_folder.path)) for git_folder in diff.collapsed)


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Returns the fields of a snapshot for JSON."""
    counts = snapshot.counts
    return {
        "id": snapshot.id,
        "time": datetime.fromtimestamp(snapshot.time_ns / _NS, UTC).isoformat(timespec="milliseconds"),
        "agent": snapshot.agent,
        "reason": snapshot.reason,
        "parent": snapshot.parent,
        "root": printable_name(snapshot.root),
        "files": counts.files,
        "folders": counts.folders,
        "links": counts.links,
        "not_held": counts.skipped,
        "torn": counts.torn,
        "bytes": counts.size,
    }


def author_and_reason(snapshot: Snapshot) -> str:
    """Returns who took a snapshot, and why."""
    return f"{snapshot.agent or _BY_HAND}: {snapshot.reason}"


def relative_age(time_ns: int) -> str:
    """Formats how long ago a time was, in the largest unit that fits."""
    seconds = max(time.time_ns() - time_ns, 0) // _NS
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{pluralize(int(seconds // size), unit)} ago"
    return "now"


def pluralize(number: int, noun: str) -> str:
    """Formats a count with its noun: "1 file", "2 files"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def display_path(path: bytes) -> str:
    """Formats a path in a snapshot for printing and for JSON."""
    return printable_name(os.fsdecode(path)) or "."


def entry_fields(entry: TreeEntry) -> dict[str, Any]:
    """Returns the fields of an entry for JSON."""
    fields: dict[str, Any] = {"name": display_path(entry.name), "kind": _KINDS.get(entry.kind, "file")}
    if entry.is_file:
        fields |= {"size": entry.size, "torn": entry.torn}
    if entry.kind is EntryKind.LINK:
        fields["target"] = display_path(entry.ref)
    if entry.kind is EntryKind.SKIPPED:
        fields["why"] = display_path(entry.ref)
    return {**fields, "mode": f"{entry.mode:04o}"}


def entry_line(entry: TreeEntry) -> str:
    """Formats an entry as one line of a listing."""
    name = display_path(entry.name)
    if entry.kind is EntryKind.FOLDER:
        return f"{entry.mode:04o} {'':>12}  {name}/"
    if entry.kind is EntryKind.LINK:
        return f"{entry.mode:04o} {'link':>12}  {name} -> {display_path(entry.ref)}"
    if entry.kind is EntryKind.SKIPPED:
        return f"{entry.mode:04o} {'not held':>12}  {name} ({display_path(entry.ref)})"
    return f"{entry.mode:04o} {entry.size:>12,}  {name}{' (may be torn)' if entry.torn else ''}"


def change_fields(change: PathChange, *, with_text: bool = True) -> dict[str, Any]:
    """Returns the fields of a change for JSON."""
    fields: dict[str, Any] = {"change": change.what.value, "path": display_path(change.path)}
    if change.old_path is not None:
        fields |= {"from": display_path(change.old_path), "similarity": round(change.similarity, 3)}
    modes = changed_modes(change)
    if modes is not None:
        fields |= {"old_mode": modes[0], "mode": modes[1]}
    if with_text and change.text:
        fields["diff"] = change.text
    return fields


def changed_modes(change: PathChange) -> tuple[str, str] | None:
    """Returns the mode before and after, if they differ on the same kind of entry."""
    before, after = change.before, change.after
    if before is None or after is None or before.mode == after.mode:
        return None
    # When a file became a link, or the reverse, comparing the modes means nothing.
    alike = (before.is_file and after.is_file) or before.kind is after.kind
    return (f"{before.mode:04o}", f"{after.mode:04o}") if alike else None


def change_line(change: PathChange) -> str:
    """Formats one change as `git status` does."""
    path = display_path(change.path)
    if change.old_path is not None:
        path = f"{display_path(change.old_path)} -> {path} ({change.similarity:.0%} alike)"
    modes = changed_modes(change)
    # If only the mode differs, the text of the change already says so.
    more = f"  mode {modes[0]} → {modes[1]}" if modes is not None and change.what is not ChangeType.MODE else ""
    return f"{MARKS[change.what]} {path}{more}"


def stat_line(change: PathChange) -> str:
    """Formats one change with its number of added and removed lines."""
    added, removed = line_counts(change.text)
    if added or removed:
        return f"{change_line(change)}  +{added} -{removed}"
    more = change.text if change.text and "\n" not in change.text else ""
    return f"{change_line(change)}  {more}".rstrip()


def folded_line(folded: CollapsedGitFolder) -> str:
    """Formats a collapsed `.git` folder as one line."""
    return f"{display_path(folded.path)}: {pluralize(folded.count, 'path')} changed"


def line_counts(text: str) -> tuple[int, int]:
    """Counts the added and removed lines of a unified diff."""
    if not text.startswith("--- "):
        return 0, 0
    lines = text.splitlines()[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def restored_fields(restored: RestoreResult) -> dict[str, Any]:
    """Returns the fields of a restore's result for JSON."""
    return {
        "restored": restored.snapshot.id,
        "changed": restored.differed,
        "undo": restored.before.id,
        "written": restored.written,
        "removed": restored.removed,
        "kept": [note_fields(note) for note in restored.skipped],
        "failed": [note_fields(note) for note in restored.failed],
        "left": [display_path(path) for path in restored.skipped_repositories],
    }


def restored_text(restored: RestoreResult) -> str:
    """Describes what a restore did, in a sentence."""
    if restored.differed:
        files = pluralize(restored.written, "file")
        return f"Restored {restored.snapshot.id}: wrote {files}, removed {restored.removed:,}."
    what = "Only git data" if restored.skipped_repositories else "Nothing"
    return f"{what} differs from snapshot {restored.snapshot.id}, so nothing was changed."


def skipped_repositories_line(repositories: Sequence[bytes], verb: str, otherwise: str) -> str:
    """Lists the repositories that were not restored, and how to restore them."""
    shown = ", ".join(display_path(path) for path in repositories[:_LEFT_SHOWN])
    more = f" and {len(repositories) - _LEFT_SHOWN:,} more" if len(repositories) > _LEFT_SHOWN else ""
    return f"{verb} alone, with its commits: {shown}{more} ({otherwise} restores that, too)"


def restored_line(restored: RestoreResult) -> str:
    """Describes a restore for the audit log."""
    if not restored.differed:
        return f"Nothing differed from {restored.snapshot.id}."
    return f"Restored {restored.snapshot.id}; {restored.before.id} undoes it."


def note_fields(note: PathNote) -> dict[str, str]:
    return {"path": display_path(note.path), "why": note.why}


def note_lines(restored: RestoreResult, most: int) -> Iterator[str]:
    """Yields the paths that were not restored, with the reason; at most `most` lines of each kind."""
    for notes, word in ((restored.failed, "not restored"), (restored.skipped, "left alone")):
        yield from (f"{word}: {display_path(note.path)}: {note.why}" for note in notes[:most])
        if len(notes) > most:
            yield f"{word}: {pluralize(len(notes) - most, 'more path')}"
