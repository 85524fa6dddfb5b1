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

from toolyard.cli.common.options import runnable
from toolyard.cli.common.workspace_lookup import Where
from toolyard.cli.snapshot import ignore, restore
from toolyard.cli.snapshot import output as printing
from toolyard.cli.snapshot.context import DIFF_LIMITS, all_option, command, inside, opened_store, snapshot
from toolyard.core.errors import ValidationError
from toolyard.core.limits import MIB
from toolyard.core.text import printable
from toolyard.files.content.file_type import Category, sniff
from toolyard.snapshots import LATEST, Diff, DiffLimits, Kind, Snapshot
from toolyard.snapshots.diff.sides import top_of
from toolyard.snapshots.service.errors import proposals_line
from toolyard.snapshots.service.format import (
    change_fields,
    counted,
    entry_fields,
    note_fields,
    path_of,
    snapshot_fields,
)
from toolyard.snapshots.service.history import is_latest
from toolyard.snapshots.store.object_reader import find

__all__ = ["ignore", "restore", "snapshot"]  # importing the modules adds their commands to the group

FAILED = 1
_SHOWN_BYTES = 64 * MIB


@command("create", 'toolyard snapshot create --reason "before the rewrite"')
@click.option("--reason", metavar="TEXT", default="", help="What it is for.")
def create(where: Where, *, reason: str, wants_json: bool) -> None:
    """Take a snapshot now. A workspace that is as it was gets no second one."""
    with opened_store(where, adds=True) as opened:
        root = opened.keeper.place.root
        is_home = root == os.path.realpath(opened.yard.options.settings.home)
        doing = f"Taking a snapshot of {printable(root)}, your home folder" if is_home else "Taking a snapshot"
        check = printing.ticking(doing, tells_all=True)
        taken = opened.keeper.create(reason=reason, check=check, agent=opened.who)
    made = taken.snapshot
    if wants_json:
        work = {"files_read": taken.work.files_read, "bytes_written": taken.work.bytes_written}
        seconds = round(taken.work.seconds, 4)
        printing.as_json({**snapshot_fields(made), "changed": taken.changed, **work, "seconds": seconds})
    elif taken.changed:
        size = counted(made.counts.size, "byte")
        click.echo(f"Took snapshot {made.id} of {counted(made.counts.files, 'file')} ({size}).")
    else:
        click.echo(f"Nothing has changed since snapshot {made.id}.")
    if taken.proposals:
        click.echo(f"[{printable(runnable(proposals_line(taken.proposals)))}]", err=True)


@command("list", "toolyard snapshot list --limit 20 --path src/app.py")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
@click.option("--path", metavar="P", default="", help="Only those in which this file or folder changed.")
def list_snapshots(where: Where, *, limit: int | None, path: str, wants_json: bool) -> None:
    """List the snapshots, the newest first: id, age, files, changes, agent and reason."""
    with opened_store(where, acts=False) as opened:
        found = opened.history.listed(limit, inside(path, opened.keeper.place.root))
    if wants_json:
        printing.as_json([each.fields() for each in found])
    elif found:
        printing.listed(found)
    elif path:
        click.echo(printable(f"No snapshot says that {path} changed."), err=True)
    else:
        click.echo(runnable("There is no snapshot yet. Take one with `toolyard snapshot create`."), err=True)


@command("show", "toolyard snapshot show 3f2a src/app.py > app.py.old")
@click.argument("name", metavar="[SNAPSHOT]", default=LATEST)
@click.argument("path", metavar="[PATH]", default="")
def show(where: Where, *, name: str, path: str, wants_json: bool) -> None:
    """Show a snapshot: what a folder in it holds, or a file's content as it was."""
    with opened_store(where, acts=is_latest(name)) as opened:
        found = opened.get(name, f"show {LATEST} {shlex.quote(name)}")
        place = inside(path, found.root)
        with opened.keeper.store.reader() as reader:
            entry = find(reader, top_of(found), place)
            data = reader.content(entry, _SHOWN_BYTES) if entry.is_file else b""
            listed = reader.entries(entry.ref) if entry.kind is Kind.FOLDER else [entry]
    if wants_json:
        fields: dict[str, Any] = {**snapshot_fields(found), "path": path_of(place)}
        if entry.is_file:
            text = data.decode("utf-8", "backslashreplace")
            # A number, as of a whole snapshot: how many files may be torn.
            printing.as_json({**fields, **entry_fields(entry), "torn": int(entry.torn), "content": text})
        else:
            notes = [note_fields(note) for note in found.notes]
            printing.as_json({**fields, "entries": [entry_fields(each) for each in listed], "notes": notes})
    elif entry.is_file:
        _print_file(data, path)
    else:
        if not place:
            printing.head(found)
        printing.folder(listed)


def _print_file(data: bytes, path: str) -> None:
    """As it is where it goes to a program or a file. A terminal gets nothing that it would act on."""
    if sys.stdout.isatty():
        if sniff(data, path).category is not Category.TEXT:
            told = f"{path} is no text ({len(data):,} bytes)"
            raise ValidationError.of("path", told, hint="Send it to a file: toolyard snapshot show ID PATH > FILE")
        printing.content(data)
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
    where: Where, *, before: str, after: str | None, path: str, stat: bool, wants_all: bool, wants_json: bool
) -> None:
    """Show what changed from one snapshot to another, or to the workspace as it is now."""
    limits = replace(DIFF_LIMITS, folds_git=not (wants_all or wants_json))
    old, new, found = _compared(where, before, after, path, limits)
    if wants_json:
        changes = [change_fields(change, with_text=not stat) for change in found.changes]
        after_id = new.id if new is not None else None
        printing.as_json({"before": old.id, "after": after_id, "changes": changes, "total": found.total})
    else:
        printing.diff(found, stat=stat)


def _compared(
    where: Where, before: str, after: str | None, path: str, limits: DiffLimits
) -> tuple[Snapshot, Snapshot | None, Diff]:
    """Of any agent's snapshots: they are the user's to see."""
    with opened_store(where, acts=is_latest(before) or (after is not None and is_latest(after))) as opened:
        old = opened.get(before, f"diff --path {shlex.quote(before)}")
        way = f"diff {before} --path {shlex.quote(after or '')}"
        new = opened.get(after, way) if after is not None else None
        if new is not None or old.agent == where.agent or not opened.is_of_a_peer(old):
            found = opened.keeper.store.diff(
                old.id,
                new.id if new is not None else None,
                root=old.root,
                path=inside(path, old.root),
                limits=limits,
                check=printing.ticking("Comparing"),
            )
            return old, new, found
    # Which links in a folder are ours is known to who opens it as the agent's.
    return _compared(replace(where, agent=old.agent), old.id, None, path, limits)


@command("verify", "toolyard snapshot verify --json")
@click.option("--forget", is_flag=True, help="Let damaged objects go, so that they are stored again when met again.")
@click.option("--rebuild", is_flag=True, help="First make a new index from the packs; the old one is kept aside.")
def verify(where: Where, *, forget: bool, rebuild: bool, wants_json: bool) -> None:
    """Read every stored byte again, and name the files whose bytes are damaged. Exit code 1 where there are any."""
    with opened_store(where, acts=False, rebuild=rebuild) as opened:
        store = opened.keeper.store
        result = store.verify(printing.ticking("Verifying"))
        count = len(store.list())
        if forget and not result.is_sound:
            store.forget_damaged(result)
    rebuilt = opened.rebuilt
    is_sound = result.is_sound and (rebuilt is None or rebuilt.is_whole)
    if wants_json:
        harmed = [{"snapshot": harm.snapshot.id, "path": path_of(harm.path)} for harm in result.harmed]
        counts = {"objects": result.objects, "snapshots": count, "bytes_read": result.bytes_read}
        damaged = [digest.hex() for digest in result.damaged]
        lost = {
            "lost": [snapshot.id for snapshot in rebuilt.lost] if rebuilt else [],
            "unreadable": dict(rebuilt.unreadable) if rebuilt else {},
        }
        printing.as_json({"sound": is_sound, **counts, "damaged": damaged, "harmed": harmed, **lost})
    else:
        printing.verified(result, count, rebuilt, forgotten=forget)
    if not is_sound:
        sys.exit(FAILED)
