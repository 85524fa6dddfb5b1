"""`toolyard snapshot`: create, list, show, compare and verify snapshots.

Exit codes: 0 success, 1 failure, an incomplete restore or damaged data, 2 wrong usage.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from typing import Any

import click

from toolyard.cli.common.options import complete_commands
from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.snapshot import ignore, restore
from toolyard.cli.snapshot import output as printing
from toolyard.cli.snapshot.context import DIFF_LIMITS, all_option, command, open_snapshots, snapshot, snapshot_path
from toolyard.core.errors import ValidationError
from toolyard.core.limits import MIB
from toolyard.core.text import printable
from toolyard.files.content.file_type import Category, sniff
from toolyard.snapshots import LATEST, Diff, DiffLimits, EntryKind, Snapshot
from toolyard.snapshots.diff.sides import root_entry
from toolyard.snapshots.service.format import (
    change_fields,
    display_path,
    entry_fields,
    note_fields,
    pluralize,
    snapshot_fields,
)
from toolyard.snapshots.service.history import is_latest
from toolyard.snapshots.service.notices import unaccepted_rules_line
from toolyard.snapshots.store.object_reader import find_entry

__all__ = ["ignore", "restore", "snapshot"]  # importing the modules adds their commands to the group

FAILED = 1
_SHOWN_BYTES = 64 * MIB


@command("create", 'toolyard snapshot create --reason "before the rewrite"')
@click.option("--reason", metavar="TEXT", default="", help="A description of the snapshot.")
def create(where: WorkspaceOptions, *, reason: str, wants_json: bool) -> None:
    """Take a snapshot now. An unchanged workspace gets no second one."""
    with open_snapshots(where, adds=True) as context:
        root = context.snapshots.location.root
        is_home = root == os.path.realpath(context.yard.options.settings.home)
        doing = f"Taking a snapshot of {printable(root)}, your home folder" if is_home else "Taking a snapshot"
        check = printing.progress_ticker(doing, prints_without_terminal=True)
        taken = context.snapshots.create(reason=reason, check=check, agent=context.author)
    made = taken.snapshot
    if wants_json:
        work = {"files_read": taken.cost.files_read, "bytes_written": taken.cost.bytes_written}
        seconds = round(taken.cost.seconds, 4)
        printing.print_json({**snapshot_fields(made), "changed": taken.changed, **work, "seconds": seconds})
    elif taken.changed:
        size = pluralize(made.counts.size, "byte")
        click.echo(f"Took snapshot {made.id} of {pluralize(made.counts.files, 'file')} ({size}).")
    else:
        click.echo(f"Nothing has changed since snapshot {made.id}.")
    if taken.proposals:
        click.echo(f"[{printable(complete_commands(unaccepted_rules_line(taken.proposals)))}]", err=True)


@command("list", "toolyard snapshot list --limit 20 --path src/app.py")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
@click.option("--path", metavar="P", default="", help="Only snapshots in which this file or folder changed.")
def list_snapshots(where: WorkspaceOptions, *, limit: int | None, path: str, wants_json: bool) -> None:
    """List the snapshots, newest first: id, age, files, changes, agent and reason."""
    with open_snapshots(where, acts_as_agent=False) as context:
        found = context.history.entries(limit, snapshot_path(path, context.snapshots.location.root))
    if wants_json:
        printing.print_json([each.fields() for each in found])
    elif found:
        printing.print_list(found)
    elif path:
        click.echo(printable(f"{path} did not change in any snapshot."), err=True)
    else:
        click.echo(complete_commands("There is no snapshot yet. Take one with `toolyard snapshot create`."), err=True)


@command("show", "toolyard snapshot show 3f2a src/app.py > app.py.old")
@click.argument("name", metavar="[SNAPSHOT]", default=LATEST)
@click.argument("path", metavar="[PATH]", default="")
def show(where: WorkspaceOptions, *, name: str, path: str, wants_json: bool) -> None:
    """Show a snapshot: the entries of a folder, or the content of a file."""
    with open_snapshots(where, acts_as_agent=is_latest(name)) as context:
        found = context.get_snapshot(name, f"show {LATEST} {shlex.quote(name)}")
        inner_path = snapshot_path(path, found.root)
        with context.snapshots.store.reader() as reader:
            entry = find_entry(reader, root_entry(found), inner_path)
            data = reader.content(entry, _SHOWN_BYTES) if entry.is_file else b""
            listed = reader.entries(entry.ref) if entry.kind is EntryKind.FOLDER else [entry]
    if wants_json:
        fields: dict[str, Any] = {**snapshot_fields(found), "path": display_path(inner_path)}
        if entry.is_file:
            text = data.decode("utf-8", "backslashreplace")
            # A number, as for a whole snapshot, where it counts the files that may be torn.
            printing.print_json({**fields, **entry_fields(entry), "torn": int(entry.torn), "content": text})
        else:
            notes = [note_fields(note) for note in found.notes]
            printing.print_json({**fields, "entries": [entry_fields(each) for each in listed], "notes": notes})
    elif entry.is_file:
        _print_file(data, path)
    else:
        if not inner_path:
            printing.print_head(found)
        printing.print_folder(listed)


def _print_file(data: bytes, path: str) -> None:
    """Writes a file unchanged to a pipe or file, and escaped to a terminal."""
    if sys.stdout.isatty():
        if sniff(data, path).category is not Category.TEXT:
            error = f"{path} is not text ({len(data):,} bytes)"
            raise ValidationError.of(
                "path", error, hint="Redirect it to a file: toolyard snapshot show ID PATH > FILE"
            )
        printing.print_content(data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@command("diff", "toolyard snapshot diff 3f2a --path src --stat")
@click.argument("before", metavar="[BEFORE]", default=LATEST)
@click.argument("after", metavar="[AFTER]", required=False)
@click.option("--path", metavar="P", default="", help="Only this file or folder.")
@click.option("--stat", is_flag=True, help="Show only the files and line counts.")
@all_option
def diff(
    where: WorkspaceOptions,
    *,
    before: str,
    after: str | None,
    path: str,
    stat: bool,
    wants_all: bool,
    wants_json: bool,
) -> None:
    """Show the changes from one snapshot to another, or to the current workspace."""
    limits = replace(DIFF_LIMITS, collapse_git=not (wants_all or wants_json))
    old, new, found = _compare_snapshots(where, before, after, path, limits)
    if wants_json:
        changes = [change_fields(change, with_text=not stat) for change in found.changes]
        after_id = new.id if new is not None else None
        printing.print_json({"before": old.id, "after": after_id, "changes": changes, "total": found.total})
    else:
        printing.print_diff(found, stat=stat)


def _compare_snapshots(
    where: WorkspaceOptions, before: str, after: str | None, path: str, limits: DiffLimits
) -> tuple[Snapshot, Snapshot | None, Diff]:
    """Compares snapshots of any agent; all of them are the user's to see."""
    with open_snapshots(
        where, acts_as_agent=is_latest(before) or (after is not None and is_latest(after))
    ) as context:
        old = context.get_snapshot(before, f"diff --path {shlex.quote(before)}")
        way = f"diff {before} --path {shlex.quote(after or '')}"
        new = context.get_snapshot(after, way) if after is not None else None
        if new is not None or old.agent == where.agent or not context.is_from_peer(old):
            found = context.snapshots.store.diff(
                old.id,
                new.id if new is not None else None,
                root=old.root,
                path=snapshot_path(path, old.root),
                limits=limits,
                check=printing.progress_ticker("Comparing"),
            )
            return old, new, found
    # Only a workspace opened as that agent's knows which links in it are ours.
    return _compare_snapshots(replace(where, agent=old.agent), old.id, None, path, limits)


@command("verify", "toolyard snapshot verify --json")
@click.option("--forget", is_flag=True, help="Discard damaged objects, so that a later snapshot stores them again.")
@click.option("--rebuild", is_flag=True, help="Rebuild the index from the packs first; the old index is kept.")
def verify(where: WorkspaceOptions, *, forget: bool, rebuild: bool, wants_json: bool) -> None:
    """Read all stored data and list the damaged files. Exit code 1 if there are any."""
    with open_snapshots(where, acts_as_agent=False, rebuild=rebuild) as context:
        store = context.snapshots.store
        result = store.verify(printing.progress_ticker("Verifying"))
        count = len(store.list())
        if forget and not result.is_intact:
            store.forget_damaged(result)
    rebuilt = context.rebuilt
    is_sound = result.is_intact and (rebuilt is None or rebuilt.is_complete)
    if wants_json:
        harmed = [{"snapshot": harm.snapshot.id, "path": display_path(harm.path)} for harm in result.damaged_paths]
        counts = {"objects": result.objects, "snapshots": count, "bytes_read": result.bytes_read}
        damaged = [digest.hex() for digest in result.damaged_objects]
        lost = {
            "lost": [snapshot.id for snapshot in rebuilt.lost] if rebuilt else [],
            "unreadable": dict(rebuilt.unreadable) if rebuilt else {},
        }
        printing.print_json({"sound": is_sound, **counts, "damaged": damaged, "harmed": harmed, **lost})
    else:
        printing.print_verified(result, count, rebuilt, forgotten=forget)
    if not is_sound:
        sys.exit(FAILED)
