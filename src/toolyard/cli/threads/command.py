"""`toolyard threads`: list, show, search, export and delete the threads of the assistant.

Exit codes: 0 success, 1 nothing matches, 2 wrong usage or an unknown thread. Texts of models and files are escaped
before they are printed. No database is created if there is none.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.threads import output as printing
from toolyard.cli.threads.context import ThreadsContext, command, find_thread_id, open_threads, threads
from toolyard.cli.threads.export import thread_markdown, write_private
from toolyard.core.errors import ValidationError
from toolyard.snapshots.service.format import pluralize

__all__ = ["threads"]

_NOTHING_FITS = 1
_EVERY = 1_000_000


@command("list", "toolyard threads list", "toolyard threads list --json | jq '.[].id'")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Maximum number of threads.",
)
def list_threads(where: WorkspaceOptions, *, limit: int, wants_json: bool) -> None:
    """List the threads, newest first: id, age, turns, tools and first question."""
    with open_threads(where) as context:
        found = context.store.list(limit)
        total = len(found) if len(found) < limit else len(context.store.ids_with_prefix(""))
    if wants_json:
        printing.print_json([asdict(each) for each in found])
    elif found:
        printing.print_list(found)
        if total > len(found):
            click.echo(printing.unlisted_note(len(found), total), err=True)
    else:
        click.echo(printing.escape_lines(context.empty_message), err=True)


@command("show", "toolyard threads show 3f0c9a61", "toolyard threads show 3f0c9a61 --last 1")
@click.argument("identity", metavar="ID")
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N turns.")
def show(where: WorkspaceOptions, *, identity: str, last: int | None, wants_json: bool) -> None:
    """Show the text of a thread. ID is its id, or a prefix of it."""
    with open_threads(where) as context:
        thread = context.store.read(find_thread_id(context, identity))
    if wants_json:
        printing.print_json(printing.thread_fields(thread, last))
    else:
        printing.print_thread(thread, last)


@command("search", 'toolyard threads search "index reports"', "toolyard threads search deadlock --top 5")
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--top", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of turns."
)
def search(where: WorkspaceOptions, *, words: tuple[str, ...], top: int, wants_json: bool) -> None:
    """Find turns that contain all WORDS, in the question or the answer, newest threads first."""
    with open_threads(where) as context:
        found = context.store.search(" ".join(words), top)
    if wants_json:
        printing.print_json(
            [{"id": hit.thread.id, "turn": hit.turn, "role": hit.role, "excerpt": hit.excerpt} for hit in found]
        )
    else:
        printing.print_hits(found)
    if not found:
        click.echo("No turn contains all of these words.", err=True)
        sys.exit(_NOTHING_FITS)


@command(
    "export",
    "toolyard threads export 3f0c9a61 -o thread.md",
    "toolyard threads export 3f0c9a61 --format json | jq '.turns | length'",
)
@click.argument("identity", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
    help="The output format.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to this private file.  [default: print it]")
@click.option("--force", is_flag=True, help="With -o: replace an existing file.")
def export(
    where: WorkspaceOptions, *, identity: str, form: str, output: str | None, force: bool, wants_json: bool
) -> None:
    """Export a whole thread. ID is its id, or a prefix of it."""
    with open_threads(where) as context:
        thread = context.store.read(find_thread_id(context, identity))
    is_json = wants_json or form == "json"
    text = f"{printing.json_text(printing.thread_fields(thread))}\n" if is_json else thread_markdown(thread)
    if output is not None:
        write_private(output, _as_bytes(text), force=force)
        click.echo(f"Wrote {printing.escape_lines(output)}.", err=True)
    elif printing.is_terminal():
        click.echo(printing.escape_lines(text), nl=False)
    else:
        click.echo(_as_bytes(text), nl=False)


@command("delete", "toolyard threads delete 3f0c9a61", "toolyard threads delete --all --yes")
@click.argument("identities", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Delete every thread of the workspace.")
@click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")
def delete(
    where: WorkspaceOptions, *, identities: tuple[str, ...], everything: bool, yes: bool, wants_json: bool
) -> None:
    """Delete threads permanently. ID is an id, or a prefix of one."""
    if bool(identities) == everything:
        raise click.UsageError("Give the IDs of threads, or --all.")
    with open_threads(where) as context:
        chosen = _whole_ids(context, identities)
        if everything:
            chosen = [each.id for each in context.store.list(_EVERY)]
            if chosen and not yes:
                _confirm(len(chosen), asks=not wants_json and sys.stdin.isatty())
        deleted = [each for each in chosen if context.store.delete(each)]
    if wants_json:
        printing.print_json({"deleted": deleted})
    elif everything and not deleted:
        click.echo(printing.escape_lines(context.empty_message), err=True)
    elif everything:
        click.echo(f"Deleted {pluralize(len(deleted), 'thread')}.")
    else:
        for each in deleted:
            click.echo(f"Deleted thread {each}.")


def _whole_ids(context: ThreadsContext, identities: tuple[str, ...]) -> list[str]:
    """Resolves all ids before the first thread is deleted."""
    try:
        return [*dict.fromkeys(find_thread_id(context, each) for each in identities)]
    except ValidationError as error:
        if len(identities) > 1:
            raise ValidationError(f"{error.message} Nothing was deleted.", hint=error.hint) from error
        raise


def _confirm(count: int, *, asks: bool) -> None:
    statement = f"This deletes {'the only thread' if count == 1 else f'all {count:,} threads'} of the workspace"
    if not asks:
        raise ValidationError(f"{statement}.", hint="To proceed, pass --yes.")
    click.confirm(f"{statement}. Continue?", abort=True)


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
