"""Snapshots and what differs between them, in fields for programs and in lines for readers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolyard.files.os_errors import shown
from toolyard.snapshots import Change, Diff, Entry, Folded, Kind, Note, Restored, Snapshot, What

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_KINDS = {Kind.FOLDER: "folder", Kind.LINK: "link", Kind.SKIPPED: "not held"}
MARKS = {What.ADDED: "A", What.REMOVED: "D", What.CHANGED: "M", What.MODE: "m", What.RENAMED: "R"}
_LEFT_SHOWN = 3
_BY_HAND = "by hand"
"""Of a snapshot that the user had taken, or that holds changes of no known agent."""
_NS = 1_000_000_000
_SLASH = ord("/")


@dataclass(frozen=True, slots=True)
class Listed:
    """A snapshot with what it changed."""

    snapshot: Snapshot
    changes: int | None
    """Since the one before; None where there is none."""

    def fields(self) -> dict[str, Any]:
        return {**snapshot_fields(self.snapshot), "changes": self.changes}

    def line(self, when: str = "") -> str:
        """One row. `when` comes beside the age."""
        snapshot = self.snapshot
        changes = "first" if self.changes is None else counted(self.changes, "change")
        files = counted(snapshot.counts.files, "file")
        ago = f"{age(snapshot.time_ns):>14}{when}"
        return f"{snapshot.id}  {ago}  {files:>12}  {changes:>11}  {shown(about(snapshot))}".rstrip()


def worth_telling(changes: Sequence[Change]) -> list[Change]:
    """All but folders that came or went with what is in them, which tells of them."""
    above = {change.path[:at] for change in changes for at, byte in enumerate(change.path) if byte == _SLASH}
    return [change for change in changes if not (_is_folder(change) and change.path in above)]


def _is_folder(change: Change) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind is Kind.FOLDER and change.what in {What.ADDED, What.REMOVED}


def paths_of(found: Diff) -> Iterator[str]:
    """Every path that differs, once; of a renamed file both. What lies in a folded folder goes by the folder."""
    for change in worth_telling(found.changes):
        yield from (shown(os.fsdecode(path)) for path in (change.old_path, change.path) if path is not None)
    yield from (shown(os.fsdecode(each.path)) for each in found.folded)


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    counts = snapshot.counts
    return {
        "id": snapshot.id,
        "time": datetime.fromtimestamp(snapshot.time_ns / _NS, UTC).isoformat(timespec="milliseconds"),
        "agent": snapshot.agent,
        "reason": snapshot.reason,
        "parent": snapshot.parent,
        "root": shown(snapshot.root),
        "files": counts.files,
        "folders": counts.folders,
        "links": counts.links,
        "not_held": counts.skipped,
        "torn": counts.torn,
        "bytes": counts.size,
    }


def about(snapshot: Snapshot) -> str:
    """Whose changes it holds, or who took it, and why."""
    return f"{snapshot.agent or _BY_HAND}: {snapshot.reason}"


def age(time_ns: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(time.time_ns() - time_ns, 0) // _NS
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{counted(int(seconds // size), unit)} ago"
    return "now"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def path_of(path: bytes) -> str:
    """A path in a snapshot as it is printed and sent."""
    return shown(os.fsdecode(path)) or "."


def entry_fields(entry: Entry) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": path_of(entry.name), "kind": _KINDS.get(entry.kind, "file")}
    if entry.is_file:
        fields |= {"size": entry.size, "torn": entry.torn}
    if entry.kind is Kind.LINK:
        fields["target"] = path_of(entry.ref)
    if entry.kind is Kind.SKIPPED:
        fields["why"] = path_of(entry.ref)
    return {**fields, "mode": f"{entry.mode:04o}"}


def entry_line(entry: Entry) -> str:
    name = path_of(entry.name)
    if entry.kind is Kind.FOLDER:
        return f"{entry.mode:04o} {'':>12}  {name}/"
    if entry.kind is Kind.LINK:
        return f"{entry.mode:04o} {'link':>12}  {name} -> {path_of(entry.ref)}"
    if entry.kind is Kind.SKIPPED:
        return f"{entry.mode:04o} {'not held':>12}  {name} ({path_of(entry.ref)})"
    return f"{entry.mode:04o} {entry.size:>12,}  {name}{' (may be torn)' if entry.torn else ''}"


def change_fields(change: Change, *, with_text: bool = True) -> dict[str, Any]:
    fields: dict[str, Any] = {"change": change.what.value, "path": path_of(change.path)}
    if change.old_path is not None:
        fields |= {"from": path_of(change.old_path), "similarity": round(change.similarity, 3)}
    modes = changed_modes(change)
    if modes is not None:
        fields |= {"old_mode": modes[0], "mode": modes[1]}
    if with_text and change.text:
        fields["diff"] = change.text
    return fields


def changed_modes(change: Change) -> tuple[str, str] | None:
    """The mode before and after, where it is of the same kind of thing and differs."""
    before, after = change.before, change.after
    if before is None or after is None or before.mode == after.mode:
        return None
    # Of a file that became a link, or the other way round, the modes say nothing.
    alike = (before.is_file and after.is_file) or before.kind is after.kind
    return (f"{before.mode:04o}", f"{after.mode:04o}") if alike else None


def change_line(change: Change) -> str:
    """One line, as `git status` would have it."""
    path = path_of(change.path)
    if change.old_path is not None:
        path = f"{path_of(change.old_path)} -> {path} ({change.similarity:.0%} alike)"
    modes = changed_modes(change)
    # Where only the mode differs, the text says so.
    more = f"  mode {modes[0]} → {modes[1]}" if modes is not None and change.what is not What.MODE else ""
    return f"{MARKS[change.what]} {path}{more}"


def stat_line(change: Change) -> str:
    """The same with how many lines came and went."""
    added, removed = line_counts(change.text)
    if added or removed:
        return f"{change_line(change)}  +{added} -{removed}"
    more = change.text if change.text and "\n" not in change.text else ""
    return f"{change_line(change)}  {more}".rstrip()


def folded_line(folded: Folded) -> str:
    return f"{path_of(folded.path)}: {counted(folded.count, 'path')} changed"


def line_counts(text: str) -> tuple[int, int]:
    """Added and removed lines of a unified diff."""
    if not text.startswith("--- "):
        return 0, 0
    lines = text.splitlines()[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def restored_fields(restored: Restored) -> dict[str, Any]:
    return {
        "restored": restored.snapshot.id,
        "changed": restored.differed,
        "undo": restored.before.id,
        "written": restored.written,
        "removed": restored.removed,
        "kept": [note_fields(note) for note in restored.kept],
        "failed": [note_fields(note) for note in restored.failed],
        "left": [path_of(path) for path in restored.left],
    }


def restored_text(restored: Restored) -> str:
    """What a restore did, in a sentence."""
    if restored.differed:
        files = counted(restored.written, "file")
        return f"Restored {restored.snapshot.id}: wrote {files}, removed {restored.removed:,}."
    what = "Nothing but what git keeps" if restored.left else "Nothing"
    return f"{what} differs from snapshot {restored.snapshot.id}, so nothing was changed."


def left_line(left: Sequence[bytes], verb: str, otherwise: str) -> str:
    """The repositories that were not touched, and how they would be."""
    shown = ", ".join(path_of(path) for path in left[:_LEFT_SHOWN])
    more = f" and {len(left) - _LEFT_SHOWN:,} more" if len(left) > _LEFT_SHOWN else ""
    return f"{verb} alone, with its commits: {shown}{more} ({otherwise} restores that, too)"


def restored_line(restored: Restored) -> str:
    """For the audit log."""
    if not restored.differed:
        return f"Nothing differed from {restored.snapshot.id}."
    return f"Restored {restored.snapshot.id}; {restored.before.id} undoes it."


def note_fields(note: Note) -> dict[str, str]:
    return {"path": path_of(note.path), "why": note.why}


def note_lines(restored: Restored, most: int) -> Iterator[str]:
    """What was not restored and why, at most so many lines of each."""
    for notes, word in ((restored.failed, "not restored"), (restored.kept, "left alone")):
        yield from (f"{word}: {path_of(note.path)}: {note.why}" for note in notes[:most])
        if len(notes) > most:
            yield f"{word}: {counted(len(notes) - most, 'more path')}"
