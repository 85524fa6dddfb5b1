"""Prints what `toolyard install` and `uninstall` did, or would do: as text, as a diff, or as JSON."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import click

from toolyard.config.clients.installer import InstallOutcome, InstallReport, InstallTarget
from toolyard.core.text import printable

_OUTCOME_TEXT: Final[dict[InstallOutcome, str]] = {
    "added": "Added",
    "updated": "Updated",
    "replaced": "Replaced",
    "removed": "Removed",
}
_COLORS: Final = {"+": "green", "-": "red", "@": "cyan"}
_SHOWN_CHARS: Final = 240
"""Maximum length of a diff line: some programs write their file on a single line."""


def print_report(
    report: InstallReport,
    target: InstallTarget,
    *,
    words: Sequence[str],
    notes: Sequence[str],
    dry_run: bool,
    wants_json: bool,
) -> None:
    """Prints the report of an installation."""
    lines = [*_diff_lines(report)]
    if wants_json:
        click.echo(json.dumps(_report_fields(report, target, words, notes, lines, dry_run=dry_run), indent=2))
        return
    if dry_run and lines:
        for line in lines:
            click.echo(click.style(printable(line), fg=_COLORS.get(line[:1])))
    for line in _report_lines(report, target, words, dry_run=dry_run):
        click.echo(printable(line))
    if report.outcome not in ("removed", "absent"):
        for note in notes:
            click.echo(f"  note: {note}")


def _report_lines(
    report: InstallReport, target: InstallTarget, words: Sequence[str], *, dry_run: bool
) -> Iterator[str]:
    title, name = target.client.title, target.name
    if report.outcome == "unchanged":
        yield f'Already installed: "{name}" in {report.path}. Nothing was changed.'
        return
    if report.outcome == "absent":
        yield f'Nothing to remove: {title} has no server "{name}" in {report.path}.'
        return
    if dry_run:
        yield f"Nothing was written. This would change {report.path}."
        return
    yield f'{_OUTCOME_TEXT[report.outcome]} "{name}" for {title}: {report.path}'
    if words:
        yield f"  command: {shlex.join(words)}"
    if report.backup_path:
        yield f"  backup of the old file: {report.backup_path}"
    if target.client.check_command and report.outcome != "removed":
        yield f"  check it with: {target.client.check_command}"


def _diff_lines(report: InstallReport) -> Iterator[str]:
    if report.before == report.after:
        return
    before, after = report.before.splitlines(), report.after.splitlines()
    for line in difflib.unified_diff(before, after, report.path, report.path, lineterm=""):
        yield line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]} … ({len(line):,} characters)"


def _report_fields(
    report: InstallReport,
    target: InstallTarget,
    words: Sequence[str],
    notes: Sequence[str],
    diff: list[str],
    *,
    dry_run: bool,
) -> dict[str, object]:
    return {
        "client": target.client.name,
        "scope": target.scope,
        "name": target.name,
        "path": report.path,
        "outcome": report.outcome,
        "dry_run": dry_run,
        "command": [*words],
        "backup": report.backup_path or None,
        "notes": [*notes],
        "diff": diff if dry_run else [],
    }
