"""`toolyard snapshot`: take, list, show, compare, restore, collect and verify snapshots of a workspace.

Exit codes: 0 fine, 1 when it failed, something could not be restored or stored bytes are damaged, 2 for wrong use.
What is restored here is restored for the user: no policy says what may be written.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from toolyard.app.snapshots.history import History
from toolyard.app.snapshots.keeper import Keeper
from toolyard.app.snapshots.telling import (
    change_fields,
    entry_fields,
    note_fields,
    path_of,
    restored_fields,
    snapshot_fields,
)
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli import snapshot_printing as printing
from toolyard.cli.audit import printable
from toolyard.cli.options import agent_option, config_option, runnable, state_option, workspace_option
from toolyard.cli.standing import Kept, find_kept
from toolyard.cli.standing import Where as _Where
from toolyard.core.errors import ValidationError
from toolyard.core.events import Outcome
from toolyard.core.limits import MIB
from toolyard.core.paths import beneath
from toolyard.fs.content.kinds import Category, sniff
from toolyard.workspace.snapshots import DiffLimits, Kind, Snapshot, SnapshotStore
from toolyard.workspace.snapshots.differences import top_of
from toolyard.workspace.snapshots.reading import find

FAILED = 1
_SECONDS_A_DAY = 86_400.0
_LATEST = "latest"
_SHOWN_BYTES = 64 * MIB
_DIFF_LIMITS = DiffLimits(chars_each=200_000, chars=20_000_000)
_EXAMPLES = """\b
Examples:
  toolyard snapshot create --reason "before the rewrite"
  toolyard snapshot list
  toolyard snapshot diff                    what changed since the newest
  toolyard snapshot diff 3f2a 81bc --stat   between two, by the beginnings of their ids
  toolyard snapshot restore 3f2a src/app.py --dry-run
"""
_WHO = "Whose workspace, where the configuration has several agents."


@dataclass(frozen=True, slots=True)
class _Opened:
    yard: Yard
    keeper: Keeper
    history: History

    def note(self, what: str) -> None:
        """What the user did to the workspace, beside what agents did."""
        self.yard.record("snapshot", what, Outcome.OK)


def _command(name: str, example: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command of the group with the options that all of them have."""

    def made(function: Callable[..., None]) -> click.Command:
        def run(
            *, config_file: str | None, workspace: str | None, agent: str | None, state: str | None, **rest: Any
        ) -> None:
            function(_Where(config_file, workspace, agent, state), **rest)

        run.__doc__ = function.__doc__
        # What the function itself declares comes first in its help.
        for option in (
            click.option("--json", "wants_json", is_flag=True, help="Print JSON."),
            state_option("Where the snapshots are kept, outside every workspace."),
            agent_option(_WHO),
            workspace_option(),
            config_option(),
        ):
            run = option(run)
        parameters: list[click.Parameter] = getattr(function, "__click_params__", [])
        run.__click_params__ = [*getattr(run, "__click_params__", []), *parameters]  # pyright: ignore[reportFunctionMemberAccess]
        return snapshot.command(name=name, epilog=f"\b\nExample:\n  {example}")(run)

    return made


@contextlib.contextmanager
def _opened(where: _Where, *, acts: bool = True, adds: bool = False, rebuild: bool = False) -> Generator[_Opened]:
    """The workspace that is meant. Without `acts`, of several agents all may be meant."""
    place = find_kept(Kept.SNAPSHOTS, where, acts=acts, adds=adds)
    options = YardOptions(workspace=place.workspace, config=place.config, agent=where.agent, state_home=where.state)
    with Yard.open(options) as yard:
        everybody = yard.home.has_layout and not yard.home.is_member
        keeper = yard.snapshots
        if rebuild:
            SnapshotStore.rebuild(keeper.place.folder, printing.ticking("Rebuilding"))
        yield _Opened(yard, keeper, History(keeper.store, None if everybody else keeper.place.root))


@click.group(epilog=_EXAMPLES)
def snapshot() -> None:
    """Take, compare and restore snapshots of a workspace."""


@_command("create", 'toolyard snapshot create --reason "before the rewrite"')
@click.option("--reason", metavar="TEXT", default="", help="What it is for.")
def create(where: _Where, *, reason: str, wants_json: bool) -> None:
    """Take a snapshot now. A workspace that is as it was gets no second one."""
    with _opened(where, adds=True) as opened:
        taken = opened.keeper.create(reason=reason, check=printing.ticking("Taking a snapshot"))
    made = taken.snapshot
    if wants_json:
        work = {"files_read": taken.work.files_read, "bytes_written": taken.work.bytes_written}
        seconds = round(taken.work.seconds, 4)
        printing.as_json({**snapshot_fields(made), "changed": taken.changed, **work, "seconds": seconds})
    elif taken.changed:
        click.echo(f"Took snapshot {made.id} of {made.counts.files:,} files ({made.counts.size:,} bytes).")
    else:
        click.echo(f"Nothing has changed since snapshot {made.id}.")


@_command("list", "toolyard snapshot list --limit 20")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
def list_snapshots(where: _Where, *, limit: int | None, wants_json: bool) -> None:
    """List the snapshots, the newest first: id, age, files, changes, agent and reason."""
    with _opened(where, acts=False) as opened:
        found = opened.history.listed(limit)
    if wants_json:
        printing.as_json([each.fields() for each in found])
    elif found:
        printing.listed(found)
    else:
        click.echo(runnable("There is no snapshot yet. Take one with `toolyard snapshot create`."), err=True)


@_command("show", "toolyard snapshot show 3f2a src/app.py > app.py.old")
@click.argument("name", metavar="[SNAPSHOT]", default=_LATEST)
@click.argument("path", metavar="[PATH]", default="")
def show(where: _Where, *, name: str, path: str, wants_json: bool) -> None:
    """Show a snapshot: what a folder in it holds, or a file's content as it was."""
    with _opened(where) as opened:
        found = opened.history.get(name)
        place = _inside(path, opened.keeper)
        with opened.keeper.store.reader() as reader:
            entry = find(reader, top_of(found), place)
            data = reader.content(entry, _SHOWN_BYTES) if entry.is_file else b""
            inside = reader.entries(entry.ref) if entry.kind is Kind.FOLDER else [entry]
    if wants_json:
        fields: dict[str, Any] = {**snapshot_fields(found), "path": path_of(place)}
        if entry.is_file:
            printing.as_json({**fields, **entry_fields(entry), "content": data.decode("utf-8", "backslashreplace")})
        else:
            notes = [note_fields(note) for note in found.notes]
            printing.as_json({**fields, "entries": [entry_fields(each) for each in inside], "notes": notes})
    elif entry.is_file:
        _print_file(data, path)
    else:
        if not place:
            printing.head(found)
        printing.folder(inside)


def _print_file(data: bytes, path: str) -> None:
    if sys.stdout.isatty() and sniff(data, path).category is not Category.TEXT:
        told = f"{path} is no text ({len(data):,} bytes)"
        raise ValidationError.of("path", told, hint="Send it to a file: toolyard snapshot show ID PATH > FILE")
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@_command("diff", "toolyard snapshot diff 3f2a --path src --stat")
@click.argument("before", metavar="[BEFORE]", default=_LATEST)
@click.argument("after", metavar="[AFTER]", required=False)
@click.option("--path", metavar="P", default="", help="Only this file or folder.")
@click.option("--stat", is_flag=True, help="Only which files, and how many lines.")
def diff(where: _Where, *, before: str, after: str | None, path: str, stat: bool, wants_json: bool) -> None:
    """Show what changed from one snapshot to another, or to the workspace as it is now."""
    with _opened(where) as opened:
        old = opened.history.get(before)
        new = opened.history.get(after) if after is not None else None
        found = opened.keeper.store.diff(
            old.id,
            new.id if new is not None else None,
            root=opened.keeper.place.root,
            path=_inside(path, opened.keeper),
            limits=_DIFF_LIMITS,
            check=printing.ticking("Comparing"),
        )
    if wants_json:
        changes = [change_fields(change, with_text=not stat) for change in found.changes]
        after_id = new.id if new is not None else None
        printing.as_json({"before": old.id, "after": after_id, "changes": changes, "total": found.total})
    else:
        printing.diff(found, stat=stat)


@_command("restore", "toolyard snapshot restore 3f2a src/app.py")
@click.argument("name", metavar="SNAPSHOT")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def restore(where: _Where, *, name: str, paths: tuple[str, ...], dry_run: bool, wants_json: bool) -> None:
    """Make the workspace, or only PATHs in it, what a snapshot says. What is there is kept first, as a snapshot."""
    with _opened(where) as opened:
        found = opened.history.get(name)
        wanted = [_inside(path, opened.keeper) for path in paths] or None
        if dry_run:
            _would_restore(opened, found, wanted or [b""], wants_json=wants_json)
            return
        place = opened.keeper.place
        result = opened.keeper.store.restore(
            found.id, root=place.root, paths=wanted, agent=place.agent, check=printing.ticking("Restoring")
        )
        opened.note(f"Restored {found.id}; {result.before.id} undoes it.")
    if wants_json:
        printing.as_json(restored_fields(result))
    else:
        printing.restored(result)
        click.echo(_undoing(result.before.id, paths))
    if result.failed:
        sys.exit(FAILED)


def _undoing(before: str, paths: Sequence[str]) -> str:
    """What undoes a restore: of these paths alone, since others may be worked on before somebody thinks of it."""
    command = f"toolyard snapshot restore {before}"
    told = runnable(f"To undo it: `{command}`").replace("`", "")
    places = (shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths)
    return printable(told.replace(command, " ".join((command, *places)), 1))


def _would_restore(opened: _Opened, found: Snapshot, places: Sequence[bytes], *, wants_json: bool) -> None:
    root = opened.keeper.place.root
    diffs = [opened.keeper.store.diff(found.id, root=root, path=place, limits=_DIFF_LIMITS) for place in places]
    changes = [change for each in diffs for change in each.changes]
    # From the snapshot to now: what came since would go, everything else would be written.
    gone = [path_of(change.path) for change in changes if change.before is None or change.old_path is not None]
    written = [path_of(change.old_path or change.path) for change in changes if change.before is not None]
    if wants_json:
        printing.as_json({"snapshot": found.id, "would_write": written, "would_remove": gone})
        return
    for verb, listed in (("write", written), ("remove", gone)):
        for path in listed:
            click.echo(f"would {verb} {path}")
    if not changes:
        click.echo("Nothing would change.")


@_command("gc", "toolyard snapshot gc --keep 50 --older-than 30d")
@click.option("--keep", metavar="N", type=click.IntRange(min=1), help="Keep the newest N of each workspace.")
@click.option("--older-than", metavar="TIME", type=printing.Duration(), help="Drop only older ones: 30d, 12h, 2w.")
def gc(where: _Where, *, keep: int | None, older_than: float | None, wants_json: bool) -> None:
    """Drop old snapshots and give their room back. Without options, those that the configuration lets go."""
    with _opened(where, acts=False) as opened:
        section = opened.keeper.section
        if keep is None and older_than is None:
            keep, older_than = section.keep, section.days * _SECONDS_A_DAY
        result = opened.keeper.store.gc(keep=keep, newer_than=older_than, check=printing.ticking("Collecting"))
        opened.note(f"Dropped {len(result.snapshots)} snapshots.")
    if wants_json:
        dropped = [each.id for each in result.snapshots]
        printing.as_json({"dropped": dropped, "objects": result.objects, "bytes_freed": result.bytes_freed})
    else:
        printing.collected(result)


@_command("verify", "toolyard snapshot verify --json")
@click.option("--forget", is_flag=True, help="Let damaged objects go, so that they are stored again when met again.")
@click.option("--rebuild", is_flag=True, help="First make a new index from the packs; the old one is kept aside.")
def verify(where: _Where, *, forget: bool, rebuild: bool, wants_json: bool) -> None:
    """Read every stored byte again, and name the files whose bytes are damaged. Exit code 1 where there are any."""
    with _opened(where, acts=False, rebuild=rebuild) as opened:
        store = opened.keeper.store
        result = store.verify(printing.ticking("Verifying"))
        count = len(store.list())
        if forget and not result.is_sound:
            store.forget_damaged(result)
    if wants_json:
        harmed = [{"snapshot": harm.snapshot.id, "path": path_of(harm.path)} for harm in result.harmed]
        counts = {"objects": result.objects, "snapshots": count, "bytes_read": result.bytes_read}
        damaged = [digest.hex() for digest in result.damaged]
        printing.as_json({"sound": result.is_sound, **counts, "damaged": damaged, "harmed": harmed})
    else:
        printing.verified(result, count)
    if not result.is_sound:
        sys.exit(FAILED)


def _inside(path: str, keeper: Keeper) -> bytes:
    """A path of the command line, absolute or relative to the workspace, as snapshots have it."""
    root = keeper.place.root
    whole = os.path.normpath(os.path.join(root, path))
    inside = beneath(whole, root)
    if inside is None:
        raise ValidationError.of("path", f"{path} lies outside the workspace", hint=f"Name a path below {root}.")
    return b"" if inside == "." else os.fsencode(inside)
