"""`toolyard exec --fork`: its options, and how what became of the fork is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolyard.cli.common.options import Decorator, runnable
from toolyard.core.text import printable

if TYPE_CHECKING:
    from toolyard.app.fork_session import Ended, Forked
    from toolyard.app.yard_options import YardOptions

_NOW = "now"
_MOST_LINES = 200


def fork_option() -> Decorator:
    return click.option(
        "--fork",
        metavar="[SNAPSHOT]",
        is_flag=False,
        flag_value=_NOW,
        help="Run it in a fork of the workspace, or of a snapshot, and list what it changed there.",
    )


def keep_option() -> Decorator:
    return click.option("--keep", is_flag=True, help="Keep what it changed in the fork, as a snapshot.")


def check_words(fork: str | None, *, keep: bool, has_code: bool) -> None:
    if keep and fork is None:
        raise click.UsageError("--keep goes with --fork.")
    if fork is not None and fork != _NOW and not has_code:
        raise click.UsageError(f"{fork} was read as the SNAPSHOT of --fork. Write --fork last, or --fork={_NOW}.")


def forked(options: YardOptions, name: str) -> Forked:
    from toolyard.app.fork_session import Forked  # few runs want one
    from toolyard.cli.snapshot.output import ticking

    made = Forked(options, None if name == _NOW else name, ticking("Making a fork"))
    if not made.fork.how.is_overlay:
        click.echo(f"[The fork is a copy: {printable(made.fork.why)}.]", err=True)
    return made


def ended(forked: Forked, *, keep: bool) -> Ended:
    from toolyard.cli.snapshot.output import ticking

    return forked.end(keep=keep, check=ticking("Keeping the fork"))


def tell(ended: Ended) -> None:
    """On standard error, where it does not mix with what the code printed."""
    fields = ended.fields()
    lines = [f"{change['what']} {change['path']}" for change in fields["changes"]]
    for text in (*_cut(lines), *(f"[Not in the fork: {note}]" for note in _cut(list(ended.missing)))):
        click.echo(printable(text), err=True)
    base = ended.snapshot
    if ended.kept:
        how = f"`toolyard snapshot diff {base} {ended.kept}` and `toolyard snapshot restore {ended.kept}`"
        said = f"Kept as snapshot {ended.kept}. To see it and to bring it into the workspace: {how}"
    elif lines:
        said = f"These changes were made in a fork of snapshot {base} and thrown away."
    else:
        said = f"Nothing was changed in the fork of snapshot {base}."
    click.echo(f"[{runnable(said)}]", err=True)


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"... and {more:,} more"] if more > 0 else lines
