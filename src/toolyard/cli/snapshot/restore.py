"""`toolyard snapshot restore`, `undo` and `gc`: what changes the workspace, or lets snapshots go.

What is restored here is restored for the user: no policy says what may be written.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import click

from toolyard.cli.common.undo_hint import undo_hint
from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.snapshot import output as printing
from toolyard.cli.snapshot.context import (
    DIFF_LIMITS,
    SnapshotContext,
    all_option,
    command,
    git_option,
    open_snapshots,
    snapshot_path,
)
from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.core.text import printable
from toolyard.snapshots import DiffLimits, RestoreResult, Snapshot
from toolyard.snapshots.service.format import (
    author_and_reason,
    display_path,
    pluralize,
    relative_age,
    restored_fields,
    restored_line,
)
from toolyard.snapshots.store.prune import expired_snapshots

FAILED = 1
_SECONDS_A_DAY = 86_400.0
_NS = 1_000_000_000


@command("restore", "toolyard snapshot restore 3f2a src/app.py")
@click.argument("name", metavar="SNAPSHOT")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@git_option
@all_option
def restore(
    where: WorkspaceOptions,
    *,
    name: str,
    paths: tuple[str, ...],
    dry_run: bool,
    with_git: bool,
    wants_all: bool,
    wants_json: bool,
) -> None:
    """Make the workspace, or only PATHs in it, what a snapshot says. What is there is kept first, as a snapshot.

    A repository's .git stays as it is, unless it is named or --with-git is given; one that is gone comes back.
    """
    with open_snapshots(where) as opened:
        found = opened.own_snapshot(name)
        wanted = [snapshot_path(path, opened.snapshots.location.root) for path in paths] or None
        if dry_run:
            limits = _dry_run_limits(with_git=with_git, tells_git=wants_all or wants_json)
            _print_restore_plan(opened, found, wanted or [b""], limits, wants_json=wants_json)
            return
        result = _restore_snapshot(opened, found, wanted, with_git=with_git)
    _print_result(result, undo_hint(result.before.id, paths, with_git=with_git), wants_json=wants_json)


@command("undo", "toolyard snapshot undo --dry-run")
@click.argument("paths", metavar="", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@git_option
@all_option
def undo(
    where: WorkspaceOptions,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    with_git: bool,
    wants_all: bool,
    wants_json: bool,
) -> None:
    """Go back to the newest snapshot that differs from the workspace as it is. Done again, it undoes itself.

    Commits stay: a repository's .git is left as it is, unless --with-git is given; one that is gone comes back.
    """
    if paths:
        named = shlex.join(paths)
        ways = f"`toolyard snapshot restore latest {named}`, or an older one: `toolyard snapshot list --path {named}`"
        raise ValidationError.of("undo", "takes back the whole workspace, and no single path", hint=f"Perhaps {ways}")
    with open_snapshots(where) as opened:
        found = opened.history.newest_different(printing.progress_ticker("Comparing"), with_git=with_git)
        if found is None:
            raise ToolError("There is nothing to undo: no snapshot differs from the workspace as it is.")
        if not wants_json:
            printing.print_head(found)
        if dry_run:
            limits = _dry_run_limits(with_git=with_git, tells_git=wants_all or wants_json)
            _print_restore_plan(opened, found, [b""], limits, wants_json=wants_json)
            return
        result = _restore_snapshot(opened, found, None, with_git=with_git)
    _print_result(result, undo_hint(result.before.id, (), with_git=with_git), wants_json=wants_json)


def _restore_snapshot(
    opened: SnapshotContext, found: Snapshot, paths: Sequence[bytes] | None, *, with_git: bool
) -> RestoreResult:
    place = opened.snapshots.location
    result = opened.snapshots.store.restore(
        found.id,
        root=place.root,
        paths=paths,
        agent=opened.author,
        check=printing.progress_ticker("Restoring"),
        skip_git=not with_git,
    )
    opened.record_action(restored_line(result))
    if result.differed:
        _snapshot_restored_state(opened, found)
    return result


def _snapshot_restored_state(opened: SnapshotContext, found: Snapshot) -> None:
    """Take what came back as the newest snapshot: what is changed after this is then undone to it."""
    try:
        check = printing.progress_ticker("Taking a snapshot")
        opened.snapshots.create(reason=f"after restoring {found.id}", check=check, agent=opened.author)
    except (ToolyardError, OSError) as error:  # what was asked for is done
        why = error.message if isinstance(error, ToolyardError) else error.strerror
        click.echo(printable(f"It was restored, and no snapshot of that could be taken: {why}"), err=True)


def _print_result(result: RestoreResult, undo_text: str, *, wants_json: bool) -> None:
    if wants_json:
        printing.print_json(restored_fields(result))
    else:
        printing.print_restored(result)
        if result.differed:
            click.echo(undo_text)
    if result.failed:
        sys.exit(FAILED)


def _dry_run_limits(*, with_git: bool, tells_git: bool) -> DiffLimits:
    return replace(DIFF_LIMITS, chars=0, collapse_git=not tells_git, skip_git=not with_git)


def _print_restore_plan(
    opened: SnapshotContext, found: Snapshot, places: Sequence[bytes], limits: DiffLimits, *, wants_json: bool
) -> None:
    root, store = opened.snapshots.location.root, opened.snapshots.store
    diffs = [store.diff(found.id, root=root, path=place, limits=limits) for place in places]
    changes = [change for each in diffs for change in each.changes]
    # From the snapshot to now: what came since would go, everything else would be written.
    gone = [display_path(change.path) for change in changes if change.before is None or change.old_path is not None]
    written = [display_path(change.old_path or change.path) for change in changes if change.before is not None]
    left = [path for each in diffs for path in each.skipped_repositories]
    if wants_json:
        leave = [display_path(path) for path in left]
        printing.print_json(
            {"snapshot": found.id, "would_write": written, "would_remove": gone, "would_leave": leave}
        )
        return
    for verb, listed in (("write", written), ("remove", gone)):
        for path in listed:
            click.echo(printable(f"would {verb} {path}"))
    for folded in (folded for each in diffs for folded in each.collapsed):
        told = f"would bring back {pluralize(folded.count, 'path')} in {display_path(folded.path)}"
        click.echo(printable(f"{told} (--all shows them)"))
    if not any(each.total for each in diffs):
        click.echo("Nothing would change.")
    printing.print_left(left, "Would leave")


@command("gc", "toolyard snapshot gc --keep 50 --older-than 30d")
@click.option("--keep", metavar="N", type=click.IntRange(min=0), help="Keep the newest N of each workspace.")
@click.option("--older-than", metavar="TIME", type=printing.Duration(), help="Drop only older ones: 30d, 12h, 2w.")
@click.option("--dry-run", is_flag=True, help="Only say which would be dropped.")
@click.option("--yes", is_flag=True, help="Do not ask, even where nothing but the newest would stay.")
def gc(
    where: WorkspaceOptions, *, keep: int | None, older_than: float | None, dry_run: bool, yes: bool, wants_json: bool
) -> None:
    """Drop old snapshots and give their room back. Without options, those that the configuration lets go.

    The newest of each workspace always stays.
    """
    with open_snapshots(where, acts_as_agent=False) as opened:
        section = opened.snapshots.section
        if keep is None and older_than is None:
            keep, older_than = section.keep, section.days * _SECONDS_A_DAY
        gone = expired_snapshots(opened.snapshots.store.list(), keep, _cutoff_ns(older_than))
        if dry_run:
            _print_drop_plan(gone, wants_json=wants_json)
            return
        if gone and not keep and not yes and _drops_all(opened, older_than):
            _confirm(len(gone), asks=not wants_json and _at_terminal())
        result = opened.snapshots.store.gc(
            keep=keep, newer_than=older_than, check=printing.progress_ticker("Collecting")
        )
        opened.record_action(f"Dropped {len(result.snapshots)} snapshots.")
    if wants_json:
        dropped = [each.id for each in result.snapshots]
        printing.print_json({"dropped": dropped, "objects": result.objects, "bytes_freed": result.bytes_freed})
    else:
        printing.print_collected(result)


def _cutoff_ns(older_than: float | None) -> int | None:
    return None if older_than is None else time.time_ns() - int(older_than * _NS)


def _drops_all(opened: SnapshotContext, older_than: float | None) -> bool:
    """Whether age protects none: what stays is only the newest, which always does."""
    since = _cutoff_ns(older_than)
    return since is None or all(each.time_ns < since for each in opened.snapshots.store.list())


def _print_drop_plan(gone: Sequence[Snapshot], *, wants_json: bool) -> None:
    if wants_json:
        printing.print_json({"would_drop": [each.id for each in gone]})
        return
    for each in gone:
        click.echo(printable(f"would drop {each.id}, {relative_age(each.time_ns)}, {author_and_reason(each)}"))
    if not gone:
        click.echo("Nothing would be dropped.")


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _confirm(count: int, *, asks: bool) -> None:
    told = f"This drops {pluralize(count, 'snapshot')}, all but the newest of each workspace"
    if not asks:
        raise ValidationError.of("gc", f"{told}.", hint="See them with --dry-run; if that is meant, say --yes.")
    click.confirm(f"{told}. Go on?", abort=True)
