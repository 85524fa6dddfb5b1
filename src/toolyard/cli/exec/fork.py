"""The options of `toolyard exec --fork`, and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolyard.cli.common.options import Decorator, complete_commands
from toolyard.core.text import printable

if TYPE_CHECKING:
    from toolyard.app.fork_session import ForkResult, ForkSession
    from toolyard.app.yard_options import YardOptions

_NOW = "now"
_MAX_LINES = 200


def fork_option() -> Decorator:
    """Returns the option `--fork`."""
    return click.option(
        "--fork",
        metavar="[SNAPSHOT]",
        is_flag=False,
        flag_value=_NOW,
        help="Run in a fork of the workspace, or of a snapshot, and list the changes.",
    )


def keep_option() -> Decorator:
    """Returns the option `--keep`."""
    return click.option("--keep", is_flag=True, help="Store the changes in the fork as a snapshot.")


def check_fork_options(fork: str | None, *, keep: bool, has_code: bool) -> None:
    """Raises UsageError for options that contradict each other."""
    if keep and fork is None:
        raise click.UsageError("--keep needs --fork.")
    if fork is not None and fork != _NOW and not has_code:
        raise click.UsageError(f"{fork} was read as the SNAPSHOT of --fork. Write --fork last, or --fork={_NOW}.")


def open_fork(options: YardOptions, name: str) -> ForkSession:
    """Opens a fork session, with a note if the fork is a copy."""
    from toolyard.app.fork_session import ForkSession  # few runs use a fork
    from toolyard.cli.snapshot.output import progress_ticker

    session = ForkSession(options, None if name == _NOW else name, progress_ticker("Making a fork"))
    if not session.fork.kind.is_overlay:
        click.echo(f"[The fork is a copy: {printable(session.fork.fallback_reason)}.]", err=True)
    return session


def end_fork(session: ForkSession, *, keep: bool) -> ForkResult:
    """Ends the work in the fork; returns its changes."""
    from toolyard.cli.snapshot.output import progress_ticker

    return session.end(keep=keep, check=progress_ticker("Keeping the fork"))


def print_fork_result(result: ForkResult) -> None:
    """Prints the changes to stderr, separate from the output of the code."""
    fields = result.fields()
    lines = [f"{change['what']} {change['path']}" for change in fields["changes"]]
    for text in (
        *_limit_lines(lines),
        *(f"[Not in the fork: {note}]" for note in _limit_lines(list(result.missing))),
    ):
        click.echo(printable(text), err=True)
    base = result.snapshot
    if result.kept:
        commands = f"`toolyard snapshot diff {base} {result.kept}` and `toolyard snapshot restore {result.kept}`"
        message = f"Kept as snapshot {result.kept}. To compare it and to restore it into the workspace: {commands}"
    elif lines:
        message = f"These changes were made in a fork of snapshot {base} and discarded."
    else:
        message = f"Nothing was changed in the fork of snapshot {base}."
    click.echo(f"[{complete_commands(message)}]", err=True)


def _limit_lines(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], f"... and {more:,} more"] if more > 0 else lines
