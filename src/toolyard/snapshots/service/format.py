"""Snapshots and what differs between them, in fields for programs and in lines for readers."""

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
"""Of a snapshot that the user had taken, or that holds changes of no known agent."""
_NS = 1_000_000_000
_SLASH = ord("/")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A snapshot with what it changed."""

    snapshot: Snapshot
    changes: int | None
    """Since the one before; None where there is none."""

    def fields(self) -> dict[str, Any]:
        return {**snapshot_fields(self.snapshot), "changes": self.changes}

    def line(self, when: str = "") -> str:
        """One row. `when` comes beside the age."""
        snapshot = self.snapshot
        changes = "first" if self.changes is None else pluralize(self.changes, "change")
        files = pluralize(snapshot.counts.files, "file")
        ago = f"{relative_age(snapshot.time_ns):>14}{when}"
        return f"{snapshot.id}  {ago}  {files:>12}  {changes:>11}  {printable_name(author_and_reason(snapshot))}".rstrip()


def without_implied_folders(changes: Sequence[PathChange]) -> list[PathChange]:
    """All but folders that came or went with what is in them, which tells of them."""
    above = {change.path[:at] for change in changes for at, byte in enumerate(change.path) if byte == _SLASH}
    return [change for change in changes if not (_is_folder(change) and change.path in above)]


def _is_folder(change: PathChange) -> bool:
    entry = change.after or change.before
    return (
        entry is not None and entry.kind is EntryKind.FOLDER and change.what in {ChangeType.ADDED, ChangeType.REMOVED}
    )


def changed_paths(diff: Diff) -> Iterator[str]:
    """Every path that differs, once; of a renamed file both. What lies in a folded folder goes by the folder."""
    for change in without_implied_folders(diff.changes):
        yield from (printable_name(os.fsdecode(path)) for path in (change.old_path, change.path) if path is not None)
    yield from (printable_name(os.fsdecode(each.path)) for each in diff.collapsed)


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
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
    """Whose changes it holds, or who took it, and why."""
    return f"{snapshot.agent or _BY_HAND}: {snapshot.reason}"


def relative_age(time_ns: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(time.time_ns() - time_ns, 0) // _NS
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{pluralize(int(seconds // size), unit)} ago"
    return "now"


def pluralize(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def display_path(path: bytes) -> str:
    """A path in a snapshot as it is printed and sent."""
    return printable_name(os.fsdecode(path)) or "."


def entry_fields(entry: TreeEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": display_path(entry.name), "kind": _KINDS.get(entry.kind, "file")}
    if entry.is_file:
        fields |= {"size": entry.size, "torn": entry.torn}
    if entry.kind is EntryKind.LINK:
        fields["target"] = display_path(entry.ref)
    if entry.kind is EntryKind.SKIPPED:
        fields["why"] = display_path(entry.ref)
    return {**fields, "mode": f"{entry.mode:04o}"}


def entry_line(entry: TreeEntry) -> str:
    name = display_path(entry.name)
    if entry.kind is EntryKind.FOLDER:
        return f"{entry.mode:04o} {'':>12}  {name}/"
    if entry.kind is EntryKind.LINK:
        return f"{entry.mode:04o} {'link':>12}  {name} -> {display_path(entry.ref)}"
    if entry.kind is EntryKind.SKIPPED:
        return f"{entry.mode:04o} {'not held':>12}  {name} ({display_path(entry.ref)})"
    return f"{entry.mode:04o} {entry.size:>12,}  {name}{' (may be torn)' if entry.torn else ''}"


def change_fields(change: PathChange, *, with_text: bool = True) -> dict[str, Any]:
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
    """The mode before and after, where it is of the same kind of thing and differs."""
    before, after = change.before, change.after
    if before is None or after is None or before.mode == after.mode:
        return None
    # Of a file that became a link, or the other way round, the modes say nothing.
    alike = (before.is_file and after.is_file) or before.kind is after.kind
    return (f"{before.mode:04o}", f"{after.mode:04o}") if alike else None


def change_line(change: PathChange) -> str:
    """One line, as `git status` would have it."""
    path = display_path(change.path)
    if change.old_path is not None:
        path = f"{display_path(change.old_path)} -> {path} ({change.similarity:.0%} alike)"
    modes = changed_modes(change)
    # Where only the mode differs, the text says so.
    more = f"  mode {modes[0]} → {modes[1]}" if modes is not None and change.what is not ChangeType.MODE else ""
    return f"{MARKS[change.what]} {path}{more}"


def stat_line(change: PathChange) -> str:
    """The same with how many lines came and went."""
    added, removed = line_counts(change.text)
    if added or removed:
        return f"{change_line(change)}  +{added} -{removed}"
    more = change.text if change.text and "\n" not in change.text else ""
    return f"{change_line(change)}  {more}".rstrip()


def folded_line(folded: CollapsedGitFolder) -> str:
    return f"{display_path(folded.path)}: {pluralize(folded.count, 'path')} changed"


def line_counts(text: str) -> tuple[int, int]:
    """Added and removed lines of a unified diff."""
    if not text.startswith("--- "):
        return 0, 0
    lines = text.splitlines()[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def restored_fields(restored: RestoreResult) -> dict[str, Any]:
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
    """What a restore did, in a sentence."""
    if restored.differed:
        files = pluralize(restored.written, "file")
        return f"Restored {restored.snapshot.id}: wrote {files}, removed {restored.removed:,}."
    what = "Nothing but what git keeps" if restored.skipped_repositories else "Nothing"
    return f"{what} differs from snapshot {restored.snapshot.id}, so nothing was changed."


def skipped_repositories_line(repositories: Sequence[bytes], verb: str, otherwise: str) -> str:
    """The repositories that were not touched, and how they would be."""
    shown = ", ".join(display_path(path) for path in repositories[:_LEFT_SHOWN])
    more = f" and {len(repositories) - _LEFT_SHOWN:,} more" if len(repositories) > _LEFT_SHOWN else ""
    return f"{verb} alone, with its commits: {shown}{more} ({otherwise} restores that, too)"


def restored_line(restored: RestoreResult) -> str:
    """For the audit log."""
    if not restored.differed:
        return f"Nothing differed from {restored.snapshot.id}."
    return f"Restored {restored.snapshot.id}; {restored.before.id} undoes it."


def note_fields(note: PathNote) -> dict[str, str]:
    return {"path": display_path(note.path), "why": note.why}


def note_lines(restored: RestoreResult, most: int) -> Iterator[str]:
    """What was not restored and why, at most so many lines of each."""
    for notes, word in ((restored.failed, "not restored"), (restored.skipped, "left alone")):
        yield from (f"{word}: {display_path(note.path)}: {note.why}" for note in notes[:most])
        if len(notes) > most:
            yield f"{word}: {pluralize(len(notes) - most, 'more path')}"
