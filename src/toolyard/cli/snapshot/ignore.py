"""`toolyard snapshot ignore`: which `.toolyardignore` files count, and accepting one.

Agents can write such files. So they have no effect on snapshots before the user has accepted them here.
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

_PROPOSED = "the file now says this, which counts once you accept it:"
_NAME = os.fsencode(IGNORE_FILE)


@command("ignore", "toolyard snapshot ignore", "toolyard snapshot ignore --accept .toolyardignore")
@click.option("--accept", metavar="PATH", multiple=True, help="Have the rules in this file count, as it is now.")
@click.option("--forget", metavar="PATH", multiple=True, help="Have the rules of this file count no longer.")
def ignore(where: WorkspaceOptions, *, accept: tuple[str, ...], forget: tuple[str, ...], wants_json: bool) -> None:
    """List the .toolyardignore files with their rules, and whether they count. Agents can write them: accept yours.

    Accepted rules count as they were then, whatever becomes of the file.
    """
    with open_snapshots(where) as opened:
        for path in forget:
            _record_acceptance(opened, path, accepted=False)
        for path in accept:
            _record_acceptance(opened, path, accepted=True)
        listed = _list_ignore_files(opened)
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


def _record_acceptance(opened: SnapshotContext, path: str, *, accepted: bool) -> None:
    root, store = opened.snapshots.location.root, opened.snapshots.store.folder
    found = snapshot_path(path, root)
    folder = split_path(found)[0] if split_path(found)[1] == _NAME else found
    text: bytes | None = None
    if accepted:
        text = _read_ignore_file(root, folder)
        if text is None:
            raise ToolError(f"{path} is no {IGNORE_FILE}, and no folder with one.", hint="Name one that is listed.")
    record_accepted(store, root, folder, text)
    what = "accepted" if accepted else "no longer accepted"
    opened.record_action(f"The rules of {os.fsdecode(join_path(folder, _NAME))} are {what}.")


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


def _list_ignore_files(opened: SnapshotContext) -> list[dict[str, str | list[str]]]:
    """Each file with its rules and whether they count; of one that changed since, the new rules as `proposed`."""
    accepted = opened.snapshots.store.accepted_rules(opened.snapshots.location.root).texts
    with RootFolder(opened.snapshots.location.root) as top:
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
        return "accepted; the file is gone, and these rules still count"
    return "accepted" if accepted == now else "accepted, and changed since; these rules still count"
