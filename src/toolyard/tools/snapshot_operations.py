"""What the snapshot tools do. Every path that is shown or written is judged, in a snapshot as in the folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.errors import ValidationError
from toolyard.files.content.render import render
from toolyard.files.root_folder import join
from toolyard.sandbox.output_capture import cut
from toolyard.snapshots import Diff, DiffLimits, Entry, Restored, Snapshot
from toolyard.snapshots import Kind as EntryKind
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.service.format import (
    change_fields,
    change_line,
    counted,
    entry_fields,
    entry_line,
    folded_line,
    left_line,
    note_lines,
    path_of,
    restored_fields,
    restored_line,
    restored_text,
    snapshot_fields,
)
from toolyard.snapshots.service.history import History
from toolyard.snapshots.store.object_reader import find
from toolyard.tools.snapshot_access import Reach

if TYPE_CHECKING:
    from toolyard.dispatch.call_context import Gate
    from toolyard.snapshots.service.auto_snapshots import Keeper

_NOTES_SHOWN = 20
_SECONDS_A_DAY = 86_400.0


class Folder:
    """The workspace or a context path: its snapshots, and what one call may see and write of them."""

    def __init__(self, gate: Gate, context: str) -> None:
        """Raises ValidationError where `context` is no writable context path."""
        self.gate = gate
        self.keeper = _keeper_of(gate, context) if context else gate.snapshots
        root = self.keeper.place.root if context else gate.mounts.workspace.path
        self.reach = Reach(gate, root)

    @property
    def history(self) -> History:
        return History(self.keeper.store, self.keeper.place.root)


def _keeper_of(gate: Gate, context: str) -> Keeper:
    """By the path of a context path, or by its last name."""
    found = {each.place.root: each for each in gate.resources.contexts}
    wanted = os.path.realpath(gate.mounts.clean(context, field="context"))
    named = [root for root in found if root == wanted or os.path.basename(root) == context]
    if len(named) == 1:
        return found[named[0]]
    why = "is the name of several context paths" if named else "is no writable context path"
    paths = ", ".join(found) or "there is none"
    raise ValidationError.of("context", f"{context} {why} ({paths})", hint="Give the path of one of them.")


def create(reason: str, folder: Folder) -> Result:
    folder.reach.named("", Kind.READ)
    taken = folder.keeper.create(reason=reason, check=folder.gate.check_time)
    snapshot = taken.snapshot
    text = f"Took snapshot {snapshot.id} ({counted(snapshot.counts.files, 'file')})."
    if not taken.changed:
        text = f"Nothing has changed since snapshot {snapshot.id}."
    return Result((Text(text),), {**snapshot_fields(snapshot), "changed": taken.changed})


def list_snapshots(limit: int, folder: Folder) -> Result:
    folder.reach.named("", Kind.READ)
    found = folder.history.listed(limit)
    text = "\n".join(each.line() for each in found) or "There is no snapshot yet."
    return Result((Text(text),), {"snapshots": [each.fields() for each in found]})


def show(name: str, path: str, folder: Folder) -> Result:
    reach = folder.reach
    place = reach.named(path, Kind.READ)
    snapshot = folder.history.get(name)
    with folder.keeper.store.reader() as reader:
        entry = find(reader, top_of(snapshot), place)
        if entry.is_file:
            return _file(snapshot, place, reader.content(entry, folder.gate.limits.file_bytes), folder)
        is_folder = entry.kind is EntryKind.FOLDER
        inside = reader.entries(entry.ref) if is_folder else [entry]
    above = place if is_folder else os.path.dirname(place)
    entries = [each for each in inside if _is_shown(each, above, reach)]
    text = cut("\n".join(map(entry_line, entries)) or "(empty)", folder.gate.limits.output_chars)
    fields = {"snapshot": snapshot.id, "path": path_of(place), "entries": [entry_fields(each) for each in entries]}
    return Result((Text(text),), fields)


def _is_shown(entry: Entry, above: bytes, reach: Reach) -> bool:
    return reach.shows(join(above, entry.name))


def _file(snapshot: Snapshot, path: bytes, data: bytes, folder: Folder) -> Result:
    rendered = render(data, os.fsdecode(path), limits=folder.gate.limits)
    fields = {"snapshot": snapshot.id, "path": path_of(path), "content": rendered.content, "bytes": len(data)}
    return Result(rendered.parts, fields)


def diff(before: str, after: str | None, path: str, folder: Folder, *, with_git: bool) -> Result:
    reach = folder.reach
    place = reach.named(path, Kind.READ)
    old = folder.history.get(before)
    new = folder.history.get(after) if after is not None else None
    found = _diff(old, new, place, folder, folds_git=not with_git)
    told = [change for change in found.changes if reach.shows_change(change)]
    folded = [each for each in found.folded if reach.shows(each.path)]
    hidden = len(found.changes) - len(told) + sum(each.count for each in found.folded if each not in folded)
    lines = [f"{change_line(change)}\n{change.text}".rstrip() for change in told]
    lines += (f"[{folded_line(each)}; with_git shows them.]" for each in folded)
    if hidden:
        lines.append(f"[{counted(hidden, 'change')} in files that may not be read.]")
    if found.left_off:
        lines.append(f"[{counted(found.left_off, 'more change')}.]")
    fields: dict[str, Any] = {
        "before": old.id,
        "after": new.id if new is not None else None,
        "changes": [change_fields(change) for change in told],
        "total": found.total,
        "hidden": hidden,
        "folded": [{"path": path_of(each.path), "changes": each.count} for each in folded],
    }
    return Result((Text(cut("\n".join(lines) or "Nothing differs.", folder.gate.limits.output_chars)),), fields)


def restore(name: str, paths: Sequence[str] | None, folder: Folder, *, dry_run: bool, with_git: bool) -> Result:
    reach = folder.reach
    places = [reach.named(path, Kind.WRITE) for path in ([""] if paths is None else paths)]
    snapshot = folder.history.get(name)
    if dry_run:
        return _would_restore(snapshot, places, reach, folder, with_git=with_git)
    folder.gate.changes = True  # what is there now is kept by the restore itself
    folder.gate.touched.append(folder.keeper)
    folder.gate.begin_change(folder.keeper)
    has_begun = False

    def may(path: bytes) -> bool:
        nonlocal has_begun
        has_begun = True
        return reach.may_write(path)

    def check() -> None:
        if not has_begun:  # half a restore helps nobody
            folder.gate.check_time()

    root, agent = folder.keeper.place.root, folder.keeper.place.agent
    wanted = None if paths is None else places
    store = folder.keeper.store
    restored = store.restore(
        snapshot.id, root=root, paths=wanted, agent=agent, check=check, may=may, leaves_git=not with_git
    )
    folder.gate.remark(restored_line(restored))
    same = [*(["the same paths"] if paths is not None else ()), *(["with_git"] if with_git else ())]
    return _told(restored, reach, f" with {' and '.join(same)}" if same else "")


def _told(restored: Restored, reach: Reach, same: str) -> Result:
    """`same` is what undoing it needs, too."""
    shown = replace(
        restored,
        kept=tuple(note for note in restored.kept if reach.shows(note.path)),
        failed=tuple(note for note in restored.failed if reach.shows(note.path)),
        left=tuple(path for path in restored.left if reach.shows(path)),
    )
    text = restored_text(shown)
    if restored.differed:
        text = f"{text} To undo it, restore {restored.before.id}{same}."
    lines = [text, *note_lines(shown, _NOTES_SHOWN), *_left(shown.left, "Left")]
    return Result((Text("\n".join(lines)),), restored_fields(shown))


def _left(left: Sequence[bytes], verb: str) -> list[str]:
    return [f"[{left_line(left, verb, 'with_git')}.]"] if left else []


def _would_restore(
    snapshot: Snapshot, places: Sequence[bytes], reach: Reach, folder: Folder, *, with_git: bool
) -> Result:
    diffs = [_diff(snapshot, None, place, folder, leaves_git=not with_git) for place in places]
    changes = [change for each in diffs for change in each.changes]
    left = [path for each in diffs for path in each.left if reach.shows(path)]
    told = [change for change in changes if reach.shows_change(change)]
    # From the snapshot to now: what came since would go, everything else would be written.
    gone = [change.path for change in told if change.before is None or change.old_path is not None]
    written = [change.old_path or change.path for change in told if change.before is not None]
    kept = [path for path in dict.fromkeys((*gone, *written)) if not reach.may_write(path)]
    would = {"write": [path for path in written if path not in kept], "remove": [p for p in gone if p not in kept]}
    text = f"Would write {counted(len(would['write']), 'path')} and remove {len(would['remove']):,}."
    lines = [text, *(f"{verb} {path_of(path)}" for verb, paths in would.items() for path in paths)]
    lines += (f"may not be written: {path_of(path)}" for path in kept)
    lines += _left(left, "Would leave")
    fields: dict[str, Any] = {
        "snapshot": snapshot.id,
        "would_write": [path_of(path) for path in would["write"]],
        "would_remove": [path_of(path) for path in would["remove"]],
        "may_not": [path_of(path) for path in kept],
        "would_leave": [path_of(path) for path in left],
    }
    return Result((Text(cut("\n".join(lines), folder.gate.limits.output_chars)),), fields)


def gc(gate: Gate) -> Result:
    """Drop what the configuration lets go, and nothing else: history is the user's."""
    Folder(gate, "").reach.named("", Kind.WRITE)
    section = gate.snapshots.section
    seconds = section.days * _SECONDS_A_DAY
    done = gate.snapshots.store.gc(keep=section.keep, newer_than=seconds, check=gate.check_time)
    text = f"Dropped {counted(len(done.snapshots), 'snapshot')}, freed {counted(done.bytes_freed, 'byte')}."
    return Result((Text(text),), {"dropped": len(done.snapshots), "bytes_freed": done.bytes_freed})


def _diff(
    before: Snapshot,
    after: Snapshot | None,
    path: bytes,
    folder: Folder,
    *,
    folds_git: bool = False,
    leaves_git: bool = False,
) -> Diff:
    limits = DiffLimits(changes=folder.gate.limits.list_entries, chars=folder.gate.limits.output_chars)
    return folder.keeper.store.diff(
        before.id,
        after.id if after is not None else None,
        root=folder.keeper.place.root,
        path=path,
        limits=replace(limits, folds_git=folds_git, leaves_git=leaves_git),
        check=folder.gate.check_time,
    )
