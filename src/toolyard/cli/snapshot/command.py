"""`toolyard snapshot`: take, list, show, compare and verify snapshots; snapshot_changing.py restores and collects.

Exit codes: 0 fine, 1 when it failed, something could not be restored or stored bytes are damaged, 2 for wrong use.
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
from toolyard.snapshots.service.errors import unaccepted_rules_line
from toolyard.snapshots.service.format import (
    change_fields,
    display_path,
    entry_fields,
    note_fields,
    pluralize,
    snapshot_fields,
)
from toolyard.snapshots.service.history import is_latest
from toolyard.snapshots.store.object_reader import find_entry

__all__ = ["ignore", "restore", "snapshot"]  # importing the modules adds their commands to the group

FAILED = 1
_SHOWN_BYTES = 64 * MIB


@command("create", 'toolyard snapshot create --reason "before the rewrite"')
@click.option("--reason", metavar="TEXT", default="", help="What it is for.")
def create(where: WorkspaceOptions, *, reason: str, wants_json: bool) -> None:
    """Take a snapshot now. A workspace that is as it was gets no second one."""
    with open_snapshots(where, adds=True) as opened:
        root = opened.snapshots.location.root
        is_home = root == os.path.realpath(opened.yard.options.settings.home)
        doing = f"Taking a snapshot of {printable(root)}, your home folder" if is_home else "Taking a snapshot"
        check = printing.progress_ticker(doing, prints_without_terminal=True)
        taken = opened.snapshots.create(reason=reason, check=check, agent=opened.author)
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
@click.option("--path", metavar="P", default="", help="Only those in which this file or folder changed.")
def list_snapshots(where: WorkspaceOptions, *, limit: int | None, path: str, wants_json: bool) -> None:
    """List the snapshots, the newest first: id, age, files, changes, agent and reason."""
    with open_snapshots(where, acts_as_agent=False) as opened:
        found = opened.history.entries(limit, snapshot_path(path, opened.snapshots.location.root))
    if wants_json:
        printing.print_json([each.fields() for each in found])
    elif found:
        printing.print_list(found)
    elif path:
        click.echo(printable(f"No snapshot says that {path} changed."), err=True)
    else:
        click.echo(complete_commands("There is no snapshot yet. Take one with `toolyard snapshot create`."), err=True)


@command("show", "toolyard snapshot show 3f2a src/app.py > app.py.old")
@click.argument("name", metavar="[SNAPSHOT]", default=LATEST)
@click.argument("path", metavar="[PATH]", default="")
def show(where: WorkspaceOptions, *, name: str, path: str, wants_json: bool) -> None:
    """Show a snapshot: what a folder in it holds, or a file's content as it was."""
    with open_snapshots(where, acts_as_agent=is_latest(name)) as opened:
        found = opened.get_snapshot(name, f"show {LATEST} {shlex.quote(name)}")
        place = snapshot_path(path, found.root)
        with opened.snapshots.store.reader() as reader:
            entry = find_entry(reader, root_entry(found), place)
            data = reader.content(entry, _SHOWN_BYTES) if entry.is_file else b""
            listed = reader.entries(entry.ref) if entry.kind is EntryKind.FOLDER else [entry]
    if wants_json:
        fields: dict[str, Any] = {**snapshot_fields(found), "path": display_path(place)}
        if entry.is_file:
            text = data.decode("utf-8", "backslashreplace")
            # A number, as of a whole snapshot: how many files may be torn.
            printing.print_json({**fields, **entry_fields(entry), "torn": int(entry.torn), "content": text})
        else:
            notes = [note_fields(note) for note in found.notes]
            printing.print_json({**fields, "entries": [entry_fields(each) for each in listed], "notes": notes})
    elif entry.is_file:
        _print_file(data, path)
    else:
        if not place:
            printing.print_head(found)
        printing.print_folder(listed)


def _print_file(data: bytes, path: str) -> None:
    """As it is where it goes to a program or a file. A terminal gets nothing that it would act on."""
    if sys.stdout.isatty():
        if sniff(data, path).category is not Category.TEXT:
            told = f"{path} is no text ({len(data):,} bytes)"
            raise ValidationError.of("path", told, hint="Send it to a file: toolyard snapshot show ID PATH > FILE")
        printing.print_content(data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@command("diff", "toolyard snapshot diff 3f2a --path src --stat")
@click.argument("before", metavar="[BEFORE]", default=LATEST)
@click.argument("after", metavar="[AFTER]", required=False)
@click.option("--path", metavar="P", default="", help="Only this file or folder.")
@click.option("--stat", is_flag=True, help="Only which files, and how many lines.")
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
    """Show what changed from one snapshot to another, or to the workspace as it is now."""
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
    """Of any agent's snapshots: they are the user's to see."""
    with open_snapshots(where, acts_as_agent=is_latest(before) or (after is not None and is_latest(after))) as opened:
        old = opened.get_snapshot(before, f"diff --path {shlex.quote(before)}")
        way = f"diff {before} --path {shlex.quote(after or '')}"
        new = opened.get_snapshot(after, way) if after is not None else None
        if new is not None or old.agent == where.agent or not opened.is_from_peer(old):
            found = opened.snapshots.store.diff(
                old.id,
                new.id if new is not None else None,
                root=old.root,
                path=snapshot_path(path, old.root),
                limits=limits,
                check=printing.progress_ticker("Comparing"),
            )
            return old, new, found
    # Which links in a folder are ours is known to who opens it as the agent's.
    return _compare_snapshots(replace(where, agent=old.agent), old.id, None, path, limits)


@command("verify", "toolyard snapshot verify --json")
@click.option("--forget", is_flag=True, help="Let damaged objects go, so that they are stored again when met again.")
@click.option("--rebuild", is_flag=True, help="First make a new index from the packs; the old one is kept aside.")
def verify(where: WorkspaceOptions, *, forget: bool, rebuild: bool, wants_json: bool) -> None:
    """Read every stored byte again, and name the files whose bytes are damaged. Exit code 1 where there are any."""
    with open_snapshots(where, acts_as_agent=False, rebuild=rebuild) as opened:
        store = opened.snapshots.store
        result = store.verify(printing.progress_ticker("Verifying"))
        count = len(store.list())
        if forget and not result.is_intact:
            store.forget_damaged(result)
    rebuilt = opened.rebuilt
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
