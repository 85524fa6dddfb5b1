"""`toolyard snapshot restore`, `undo` and `gc`: the commands that change the workspace or drop snapshots.

Restores run for the user: no policy limits what is written.
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
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
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
    """Restore the workspace, or only PATHs in it, from a snapshot. The current state is stored as a snapshot first.

    A repository's .git is not changed unless it is named or --with-git is given; a deleted one is restored.
    """
    with open_snapshots(where) as context:
        found = context.own_snapshot(name)
        wanted = [snapshot_path(path, context.snapshots.location.root) for path in paths] or None
        if dry_run:
            limits = _dry_run_limits(with_git=with_git, tells_git=wants_all or wants_json)
            _print_restore_plan(context, found, wanted or [b""], limits, wants_json=wants_json)
            return
        result = _restore_snapshot(context, found, wanted, with_git=with_git)
    _print_result(result, undo_hint(result.before.id, paths, with_git=with_git), wants_json=wants_json)


@command("undo", "toolyard snapshot undo --dry-run")
@click.argument("paths", metavar="", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
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
    """Restore the newest snapshot that differs from the workspace. Running it again reverts the undo.

    Commits stay: a repository's .git is not changed unless --with-git is given; a deleted one is restored.
    """
    if paths:
        named = shlex.join(paths)
        ways = f"`toolyard snapshot restore latest {named}`, or an older one: `toolyard snapshot list --path {named}`"
        raise ValidationError.of("undo", "restores the whole workspace, not a single path", hint=f"Use {ways}")
    with open_snapshots(where) as context:
        found = context.history.newest_different(printing.progress_ticker("Comparing"), with_git=with_git)
        if found is None:
            raise ToolError("There is nothing to undo: no snapshot differs from the current workspace.")
        if not wants_json:
            printing.print_head(found)
        if dry_run:
            limits = _dry_run_limits(with_git=with_git, tells_git=wants_all or wants_json)
            _print_restore_plan(context, found, [b""], limits, wants_json=wants_json)
            return
        result = _restore_snapshot(context, found, None, with_git=with_git)
    _print_result(result, undo_hint(result.before.id, (), with_git=with_git), wants_json=wants_json)


def _restore_snapshot(
    context: SnapshotContext, found: Snapshot, paths: Sequence[bytes] | None, *, with_git: bool
) -> RestoreResult:
    location = context.snapshots.location
    result = context.snapshots.store.restore(
        found.id,
        root=location.root,
        paths=paths,
        agent=context.author,
        check=printing.progress_ticker("Restoring"),
        skip_git=not with_git,
    )
    context.record_action(restored_line(result))
    if result.differed:
        _snapshot_restored_state(context, found)
    return result


def _snapshot_restored_state(context: SnapshotContext, found: Snapshot) -> None:
    """Takes a snapshot of the restored state, so that later changes can be undone to it."""
    try:
        check = printing.progress_ticker("Taking a snapshot")
        context.snapshots.create(reason=f"after restoring {found.id}", check=check, agent=context.author)
    except (ToolyardError, OSError) as error:  # the restore itself has succeeded
        why = error.message if isinstance(error, ToolyardError) else error.strerror
        click.echo(printable(f"Restored, but no snapshot of the restored state could be taken: {why}"), err=True)


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
    context: SnapshotContext, found: Snapshot, places: Sequence[bytes], limits: DiffLimits, *, wants_json: bool
) -> None:
    root, store = context.snapshots.location.root, context.snapshots.store
    diffs = [store.diff(found.id, root=root, path=place, limits=limits) for place in places]
    changes = [change for each in diffs for change in each.changes]
    # The diff is from the snapshot to now: added paths would be removed, all others written.
    removed = [
        display_path(change.path) for change in changes if change.before is None or change.old_path is not None
    ]
    written = [display_path(change.old_path or change.path) for change in changes if change.before is not None]
    left = [path for each in diffs for path in each.skipped_repositories]
    if wants_json:
        leave = [display_path(path) for path in left]
        printing.print_json(
            {"snapshot": found.id, "would_write": written, "would_remove": removed, "would_leave": leave}
        )
        return
    for verb, listed in (("write", written), ("remove", removed)):
        for path in listed:
            click.echo(printable(f"would {verb} {path}"))
    for folded in (folded for each in diffs for folded in each.collapsed):
        text = f"would bring back {pluralize(folded.count, 'path')} in {display_path(folded.path)}"
        click.echo(printable(f"{text} (--all shows them)"))
    if not any(each.total for each in diffs):
        click.echo("Nothing would change.")
    printing.print_left(left, "Would leave")


@command("gc", "toolyard snapshot gc --keep 50 --older-than 30d")
@click.option("--keep", metavar="N", type=click.IntRange(min=0), help="Keep the newest N of each workspace.")
@click.option("--older-than", metavar="TIME", type=printing.Duration(), help="Drop only older ones: 30d, 12h, 2w.")
@click.option("--dry-run", is_flag=True, help="Show which would be dropped, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, even if only the newest would remain.")
def gc(
    where: WorkspaceOptions, *, keep: int | None, older_than: float | None, dry_run: bool, yes: bool, wants_json: bool
) -> None:
    """Drop old snapshots and free their space. Without options, uses the retention of the configuration.

    The newest snapshot of each workspace always remains.
    """
    with open_snapshots(where, acts_as_agent=False) as context:
        section = context.snapshots.section
        if keep is None and older_than is None:
            keep, older_than = section.keep, section.days * _SECONDS_A_DAY
        gone = expired_snapshots(context.snapshots.store.list(), keep, _cutoff_ns(older_than))
        if dry_run:
            _print_drop_plan(gone, wants_json=wants_json)
            return
        if gone and not keep and not yes and _drops_all(context, older_than):
            _confirm(len(gone), asks=not wants_json and _at_terminal())
        result = context.snapshots.store.gc(
            keep=keep, newer_than=older_than, check=printing.progress_ticker("Collecting")
        )
        context.record_action(f"Dropped {len(result.snapshots)} snapshots.")
    if wants_json:
        dropped = [each.id for each in result.snapshots]
        printing.print_json({"dropped": dropped, "objects": result.objects, "bytes_freed": result.bytes_freed})
    else:
        printing.print_collected(result)


def _cutoff_ns(older_than: float | None) -> int | None:
    return None if older_than is None else time.time_ns() - int(older_than * _NS)


def _drops_all(context: SnapshotContext, older_than: float | None) -> bool:
    """Whether `older_than` protects no snapshot, so that only the newest would remain."""
    since = _cutoff_ns(older_than)
    return since is None or all(each.time_ns < since for each in context.snapshots.store.list())


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
    statement = f"This drops {pluralize(count, 'snapshot')}, all but the newest of each workspace"
    if not asks:
        raise ValidationError.of("gc", f"{statement}.", hint="List them with --dry-run; to proceed, pass --yes.")
    click.confirm(f"{statement}. Continue?", abort=True)
