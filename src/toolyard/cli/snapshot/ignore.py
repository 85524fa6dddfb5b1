"""`toolyard snapshot ignore`: list and accept `.toolyardignore` files.

Agents can write such files, so they have no effect on snapshots until the user accepts them here.
"""

from __future__ import annotations

import os

import click

from toolyard.cli.common.workspace_lookup import WorkspaceOptions
from toolyard.cli.snapshot import output as printing
from toolyard.cli.snapshot.context import SnapshotContext, command, open_snapshots, snapshot_path
from toolyard.core.errors import ToolError
from toolyard.core.text import printable
from toolyard.files.root_folder import RootFolder, join_path, split_path
from toolyard.snapshots import IGNORE_FILE
from toolyard.snapshots.archive.ignore_files import ignore_files, read_rules, record_accepted

_PROPOSED = "the file now has these rules, which apply once you accept it:"
_NAME = os.fsencode(IGNORE_FILE)


@command("ignore", "toolyard snapshot ignore", "toolyard snapshot ignore --accept .toolyardignore")
@click.option("--accept", metavar="PATH", multiple=True, help="Apply the current rules of this file.")
@click.option("--forget", metavar="PATH", multiple=True, help="Stop applying the rules of this file.")
def ignore(where: WorkspaceOptions, *, accept: tuple[str, ...], forget: tuple[str, ...], wants_json: bool) -> None:
    """List the .toolyardignore files with their rules, and whether they apply.

    Agents can write such files, so their rules apply only after you accept them. Accepted rules stay in effect
    unchanged, even if the file changes.
    """
    with open_snapshots(where) as context:
        for path in forget:
            _record_acceptance(context, path, accepted=False)
        for path in accept:
            _record_acceptance(context, path, accepted=True)
        listed = _list_ignore_files(context)
    if wants_json:
        printing.print_json(listed)
        return
    for each in listed:
        click.echo(printable(f"{each['path']}: {each['state']}"))
        for rule in each["rules"]:
            click.echo(printable(f"    {rule}"))
        if each["proposed"]:
            click.echo(printable(f"  {_PROPOSED}"))
        for rule in each["proposed"]:
            click.echo(printable(f"    {rule}"))
    if not listed:
        click.echo(f"There is no {IGNORE_FILE} here.", err=True)


def _record_acceptance(context: SnapshotContext, path: str, *, accepted: bool) -> None:
    root, store = context.snapshots.location.root, context.snapshots.store.folder
    found = snapshot_path(path, root)
    folder = split_path(found)[0] if split_path(found)[1] == _NAME else found
    text: bytes | None = None
    if accepted:
        text = _read_ignore_file(root, folder)
        if text is None:
            raise ToolError(f"{path} is neither a {IGNORE_FILE} nor a folder with one.", hint="Name a listed one.")
    record_accepted(store, root, folder, text)
    what = "accepted" if accepted else "no longer accepted"
    context.record_action(f"The rules of {os.fsdecode(join_path(folder, _NAME))} are {what}.")


def _read_ignore_file(root: str, folder: bytes) -> bytes | None:
    with RootFolder(root) as top:
        try:
            fd = top.open(folder)
        except OSError:
            return None
        try:
            return read_rules(fd)
        finally:
            os.close(fd)


def _list_ignore_files(context: SnapshotContext) -> list[dict[str, str | list[str]]]:
    """Returns each file with its rules and state; a file that changed since has its new rules as `proposed`."""
    accepted = context.snapshots.store.accepted_rules(context.snapshots.location.root).texts
    with RootFolder(context.snapshots.location.root) as top:
        found = dict(ignore_files(top))
    listed: list[dict[str, str | list[str]]] = []
    for folder in sorted({*found, *accepted}):
        counts = accepted.get(folder)
        text = counts if counts is not None else found[folder]
        now = found.get(folder)
        proposed = _lines(now) if now is not None and counts not in {None, now} else []
        path = os.fsdecode(join_path(folder, _NAME))
        listed.append({"path": path, "state": _state(counts, now), "rules": _lines(text), "proposed": proposed})
    return listed


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "backslashreplace").splitlines()


def _state(accepted: bytes | None, now: bytes | None) -> str:
    if accepted is None:
        return "not accepted, has no effect"
    if now is None:
        return "accepted; the file was deleted, and these rules still apply"
    return "accepted" if accepted == now else "accepted, and changed since; these rules still apply"
