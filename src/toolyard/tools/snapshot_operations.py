"""Implements the snapshot tools.

The policy applies to every path shown or written, in a snapshot as in the folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolyard.core.actions import Kind
from toolyard.core.calls import Result, Text
from toolyard.core.errors import ValidationError
from toolyard.files.content.render import render
from toolyard.files.root_folder import join_path
from toolyard.sandbox.output_capture import truncate_middle
from toolyard.snapshots import Diff, DiffLimits, EntryKind, RestoreResult, Snapshot, TreeEntry
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.service.format import (
    change_fields,
    change_line,
    display_path,
    entry_fields,
    entry_line,
    folded_line,
    note_lines,
    pluralize,
    restored_fields,
    restored_line,
    restored_text,
    skipped_repositories_line,
    snapshot_fields,
)
from toolyard.snapshots.service.history import SnapshotHistory
from toolyard.snapshots.store.object_reader import find_entry
from toolyard.tools.snapshot_access import SnapshotAccess

if TYPE_CHECKING:
    from toolyard.dispatch.call_context import CallContext
    from toolyard.snapshots.service.auto_snapshots import AutoSnapshots

_MAX_NOTES = 20
_SECONDS_A_DAY = 86_400.0


class SnapshotFolder:
    """The workspace or a context path: its snapshots, and what one call may see and write of them."""

    def __init__(self, ctx: CallContext, context: str) -> None:
        """Raises ValidationError if `context` is not a writable context path."""
        self.ctx = ctx
        self.snapshots = _context_snapshots(ctx, context) if context else ctx.snapshots
        root = self.snapshots.location.root if context else ctx.mounts.workspace.path
        self.access = SnapshotAccess(ctx, root)

    @property
    def history(self) -> SnapshotHistory:
        return SnapshotHistory(self.snapshots.store, self.snapshots.location.root)


def _context_snapshots(ctx: CallContext, context: str) -> AutoSnapshots:
    """Finds the snapshots of a context path, by its path or its last name."""
    found = {each.location.root: each for each in ctx.services.context_snapshots}
    wanted = os.path.realpath(ctx.mounts.clean(context, field="context"))
    named = [root for root in found if root == wanted or os.path.basename(root) == context]
    if len(named) == 1:
        return found[named[0]]
    why = "is the name of several context paths" if named else "is not a writable context path"
    paths = ", ".join(found) or "there is none"
    raise ValidationError.of("context", f"{context} {why} ({paths})", hint="Give the path of one of them.")


def create(reason: str, folder: SnapshotFolder) -> Result:
    """Takes a snapshot now."""
    folder.access.resolve_path("", Kind.READ)
    taken = folder.snapshots.create(reason=reason, check=folder.ctx.check_time)
    snapshot = taken.snapshot
    text = f"Took snapshot {snapshot.id} ({pluralize(snapshot.counts.files, 'file')})."
    if not taken.changed:
        text = f"Nothing has changed since snapshot {snapshot.id}."
    return Result((Text(text),), {**snapshot_fields(snapshot), "changed": taken.changed})


def list_snapshots(limit: int, folder: SnapshotFolder) -> Result:
    """Lists the newest snapshots."""
    folder.access.resolve_path("", Kind.READ)
    found = folder.history.entries(limit)
    text = "\n".join(each.line() for each in found) or "There is no snapshot yet."
    return Result((Text(text),), {"snapshots": [each.fields() for each in found]})


def show(name: str, path: str, folder: SnapshotFolder) -> Result:
    """Shows a folder or file of a snapshot."""
    access = folder.access
    place = access.resolve_path(path, Kind.READ)
    snapshot = folder.history.get(name)
    with folder.snapshots.store.reader() as reader:
        entry = find_entry(reader, root_entry(snapshot), place)
        if entry.is_file:
            return _file_result(snapshot, place, reader.content(entry, folder.ctx.limits.file_bytes), folder)
        is_folder = entry.kind is EntryKind.FOLDER
        inside = reader.entries(entry.ref) if is_folder else [entry]
    above = place if is_folder else os.path.dirname(place)
    entries = [each for each in inside if _is_shown(each, above, access)]
    text = truncate_middle("\n".join(map(entry_line, entries)) or "(empty)", folder.ctx.limits.output_chars)
    fields = {
        "snapshot": snapshot.id,
        "path": display_path(place),
        "entries": [entry_fields(each) for each in entries],
    }
    return Result((Text(text),), fields)


def _is_shown(entry: TreeEntry, above: bytes, access: SnapshotAccess) -> bool:
    return access.is_visible(join_path(above, entry.name))


def _file_result(snapshot: Snapshot, path: bytes, data: bytes, folder: SnapshotFolder) -> Result:
    rendered = render(data, os.fsdecode(path), limits=folder.ctx.limits)
    fields = {"snapshot": snapshot.id, "path": display_path(path), "content": rendered.content, "bytes": len(data)}
    return Result(rendered.parts, fields)


def diff(before: str, after: str | None, path: str, folder: SnapshotFolder, *, with_git: bool) -> Result:
    """Compares two snapshots, or a snapshot with the folder."""
    access = folder.access
    place = access.resolve_path(path, Kind.READ)
    old = folder.history.get(before)
    new = folder.history.get(after) if after is not None else None
    found = _diff(old, new, place, folder, folds_git=not with_git)
    visible = [change for change in found.changes if access.is_change_visible(change)]
    folded = [each for each in found.collapsed if access.is_visible(each.path)]
    hidden = len(found.changes) - len(visible) + sum(each.count for each in found.collapsed if each not in folded)
    lines = [f"{change_line(change)}\n{change.text}".rstrip() for change in visible]
    lines += (f"[{folded_line(each)}; with_git shows them.]" for each in folded)
    if hidden:
        lines.append(f"[{pluralize(hidden, 'change')} in files that may not be read.]")
    if found.omitted_count:
        lines.append(f"[{pluralize(found.omitted_count, 'more change')}.]")
    fields: dict[str, Any] = {
        "before": old.id,
        "after": new.id if new is not None else None,
        "changes": [change_fields(change) for change in visible],
        "total": found.total,
        "hidden": hidden,
        "folded": [{"path": display_path(each.path), "changes": each.count} for each in folded],
    }
    return Result(
        (Text(truncate_middle("\n".join(lines) or "Nothing differs.", folder.ctx.limits.output_chars)),), fields
    )


def restore(
    name: str, paths: Sequence[str] | None, folder: SnapshotFolder, *, dry_run: bool, with_git: bool
) -> Result:
    """Restores paths from a snapshot, or reports what that would do."""
    access = folder.access
    places = [access.resolve_path(path, Kind.WRITE) for path in ([""] if paths is None else paths)]
    snapshot = folder.history.get(name)
    if dry_run:
        return _restore_preview(snapshot, places, access, folder, with_git=with_git)
    folder.ctx.touched_snapshots.append(folder.snapshots)  # the restore itself takes a snapshot of the current state
    folder.ctx.begin_change(folder.snapshots)
    has_begun = False

    def may_write(path: bytes) -> bool:
        nonlocal has_begun
        has_begun = True
        return access.may_write(path)

    def check() -> None:
        if not has_begun:  # a partial restore would be worse than a late one
            folder.ctx.check_time()

    root, agent = folder.snapshots.location.root, folder.snapshots.location.agent
    wanted = None if paths is None else places
    store = folder.snapshots.store
    restored = store.restore(
        snapshot.id, root=root, paths=wanted, agent=agent, check=check, may_write=may_write, skip_git=not with_git
    )
    folder.ctx.add_audit_note(restored_line(restored))
    same = [*(["the same paths"] if paths is not None else ()), *(["with_git"] if with_git else ())]
    return _restore_result(restored, access, f" with {' and '.join(same)}" if same else "")


def _restore_result(restored: RestoreResult, access: SnapshotAccess, same: str) -> Result:
    """Builds the result. `same` names the options that undoing it needs as well."""
    shown = replace(
        restored,
        skipped=tuple(note for note in restored.skipped if access.is_visible(note.path)),
        failed=tuple(note for note in restored.failed if access.is_visible(note.path)),
        skipped_repositories=tuple(path for path in restored.skipped_repositories if access.is_visible(path)),
    )
    text = restored_text(shown)
    if restored.differed:
        text = f"{text} To undo it, restore {restored.before.id}{same}."
    lines = [text, *note_lines(shown, _MAX_NOTES), *_left_lines(shown.skipped_repositories, "Left")]
    return Result((Text("\n".join(lines)),), restored_fields(shown))


def _left_lines(left: Sequence[bytes], verb: str) -> list[str]:
    return [f"[{skipped_repositories_line(left, verb, 'with_git')}.]"] if left else []


def _restore_preview(
    snapshot: Snapshot, places: Sequence[bytes], access: SnapshotAccess, folder: SnapshotFolder, *, with_git: bool
) -> Result:
    diffs = [_diff(snapshot, None, place, folder, leaves_git=not with_git) for place in places]
    changes = [change for each in diffs for change in each.changes]
    left = [path for each in diffs for path in each.skipped_repositories if access.is_visible(path)]
    visible = [change for change in changes if access.is_change_visible(change)]
    # The diff runs from the snapshot to now: added paths would be removed, all others written.
    gone = [change.path for change in visible if change.before is None or change.old_path is not None]
    written = [change.old_path or change.path for change in visible if change.before is not None]
    denied = [path for path in dict.fromkeys((*gone, *written)) if not access.may_write(path)]
    would = {
        "write": [path for path in written if path not in denied],
        "remove": [p for p in gone if p not in denied],
    }
    text = f"Would write {pluralize(len(would['write']), 'path')} and remove {len(would['remove']):,}."
    lines = [text, *(f"{verb} {display_path(path)}" for verb, paths in would.items() for path in paths)]
    lines += (f"may not be written: {display_path(path)}" for path in denied)
    lines += _left_lines(left, "Would leave")
    fields: dict[str, Any] = {
        "snapshot": snapshot.id,
        "would_write": [display_path(path) for path in would["write"]],
        "would_remove": [display_path(path) for path in would["remove"]],
        "may_not": [display_path(path) for path in denied],
        "would_leave": [display_path(path) for path in left],
    }
    return Result((Text(truncate_middle("\n".join(lines), folder.ctx.limits.output_chars)),), fields)


def gc(ctx: CallContext) -> Result:
    """Deletes only the snapshots that the configuration no longer keeps: the history belongs to the user."""
    SnapshotFolder(ctx, "").access.resolve_path("", Kind.WRITE)
    section = ctx.snapshots.section
    seconds = section.days * _SECONDS_A_DAY
    done = ctx.snapshots.store.gc(keep=section.keep, newer_than=seconds, check=ctx.check_time)
    text = f"Dropped {pluralize(len(done.snapshots), 'snapshot')}, freed {pluralize(done.bytes_freed, 'byte')}."
    return Result((Text(text),), {"dropped": len(done.snapshots), "bytes_freed": done.bytes_freed})


def _diff(
    before: Snapshot,
    after: Snapshot | None,
    path: bytes,
    folder: SnapshotFolder,
    *,
    folds_git: bool = False,
    leaves_git: bool = False,
) -> Diff:
    limits = DiffLimits(changes=folder.ctx.limits.list_entries, chars=folder.ctx.limits.output_chars)
    return folder.snapshots.store.diff(
        before.id,
        after.id if after is not None else None,
        root=folder.snapshots.location.root,
        path=path,
        limits=replace(limits, collapse_git=folds_git, skip_git=leaves_git),
        check=folder.ctx.check_time,
    )
