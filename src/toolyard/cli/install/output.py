"""What `toolyard install` and `uninstall` did, or would do, in words, as a diff, or as JSON."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from toolyard.config.clients.installer import Outcome, Report, Target
from toolyard.core.text import printable

_DONE: Final[dict[Outcome, str]] = {
    "added": "Added",
    "updated": "Updated",
    "replaced": "Replaced",
    "removed": "Removed",
}
_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}
_SHOWN_CHARS: Final = 240
"""Of one line: some programs write their file on a single one."""


def show(
    report: Report, target: Target, *, words: Sequence[str], notes: Sequence[str], dry_run: bool, wants_json: bool
) -> None:
    lines = [*_diff(report)]
    if wants_json:
        click.echo(json.dumps(_as_json(report, target, words, notes, lines, dry_run=dry_run), indent=2))
        return
    if dry_run and lines:
        for line in lines:
            click.echo(click.style(printable(line), fg=_COLORS.get(line[:1])))
    for line in _sentences(report, target, words, dry_run=dry_run):
        click.echo(printable(line))
    if report.outcome not in ("removed", "absent"):
        for note in notes:
            click.echo(f"  note: {note}")


def _sentences(report: Report, target: Target, words: Sequence[str], *, dry_run: bool) -> Iterator[str]:
    title, name = target.client.title, target.name
    if report.outcome == "unchanged":
        yield f'Already there: "{name}" in {report.path}. Nothing was changed.'
        return
    if report.outcome == "absent":
        yield f'Nothing to remove: {title} has no server "{name}" in {report.path}.'
        return
    if dry_run:
        yield f"Nothing was written. This would change {report.path}."
        return
    yield f'{_DONE[report.outcome]} "{name}" for {title}: {report.path}'
    if words:
        yield f"  it starts: {shlex.join(words)}"
    if report.kept:
        yield f"  the file as it was: {report.kept}"
    if target.client.check and report.outcome != "removed":
        yield f"  see it with: {target.client.check}"


def _diff(report: Report) -> Iterator[str]:
    if report.before == report.after:
        return
    before, after = report.before.splitlines(), report.after.splitlines()
    for line in difflib.unified_diff(before, after, report.path, report.path, lineterm=""):
        yield line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]} … ({len(line):,} characters)"


def _as_json(
    report: Report, target: Target, words: Sequence[str], notes: Sequence[str], diff: list[str], *, dry_run: bool
) -> dict[str, object]:
    return {
        "client": target.client.name,
        "scope": target.scope,
        "name": target.name,
        "path": report.path,
        "outcome": report.outcome,
        "dry_run": dry_run,
        "command": [*words],
        "backup": report.kept or None,
        "notes": [*notes],
        "diff": diff if dry_run else [],
    }
