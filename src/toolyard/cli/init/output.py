"""Prints what `toolyard init` wrote, or would write, as text or JSON. Secrets appear only as variable names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import click

from toolyard.config.secret_extraction import ExtractedSecret
from toolyard.config.server_import import ImportedServers
from toolyard.core.text import printable

InitOutcome = Literal["created", "replaced", "added", "unchanged"]
_OUTCOME_TEXT: Final[dict[InitOutcome, str]] = {
    "created": "Wrote",
    "replaced": "Replaced",
    "added": "Added to",
    "unchanged": "Nothing to add to",
}


@dataclass(frozen=True, slots=True)
class InitResult:
    """The file that was written, and what is in it."""

    path: str
    outcome: InitOutcome
    text: str
    agents: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    backup: str = ""
    """The backup of the former file."""
    notes: tuple[str, ...] = ()

    def with_notes(self, more: Sequence[str]) -> InitResult:
        """Returns the result with more notes."""
        return replace(self, notes=(*self.notes, *more))


def print_result(made: InitResult, imported: ImportedServers, *, dry_run: bool, wants_json: bool) -> None:
    """Prints the result."""
    if wants_json:
        click.echo(json.dumps(_result_fields(made, imported, dry_run=dry_run), indent=2))
        return
    if dry_run:
        click.echo("\n".join(printable(line) for line in made.text.rstrip("\n").split("\n")))
        click.echo(f"\nNothing was written. This would be {made.path}.", err=True)
    else:
        click.echo(printable(f"{_OUTCOME_TEXT[made.outcome]} {made.path}"))
    for line in _result_lines(made, imported, dry_run=dry_run):
        click.echo(printable(line), err=dry_run)


def _result_lines(made: InitResult, imported: ImportedServers, *, dry_run: bool) -> Iterator[str]:
    if made.agents:
        yield f"  {'agents' if len(made.agents) > 1 else 'agent'}: {', '.join(made.agents)}"
    if made.servers:
        yield f"  servers: {', '.join(made.servers)}"
    if made.backup:
        yield f"  backup of the old file: {made.backup}"
    for problem in imported.problems:
        yield f"  {'left out' if problem.severity == 'error' else 'note'}: {problem}"
    for note in made.notes:
        yield f"  note: {note}"
    yield from _variable_lines(made, imported)
    if made.agents and not dry_run:
        yield f"Check it: toolyard run --check {shlex.quote(made.path)}"


def _withheld_secrets(made: InitResult, imported: ImportedServers) -> list[ExtractedSecret]:
    """Returns the secrets of newly added servers; the variables of the others are already set."""
    return [each for each in imported.extracted_secrets if each.server in made.servers]


def _variable_lines(made: InitResult, imported: ImportedServers) -> Iterator[str]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for each in _withheld_secrets(made, imported):
        places.setdefault((each.variable, each.server, each.origin), []).append(f"`{each.place}`")
    if not places:
        return
    yield "  Secrets were not copied. Set these variables where Toolyard is started:"
    for (variable, server, origin), keys in places.items():
        yield f"    {variable:<28} {server}: {', '.join(keys)} in {origin}"
    yield "  Or leave the values in those files, and list the files under `toolyard.server_files`."


def _result_fields(made: InitResult, imported: ImportedServers, *, dry_run: bool) -> dict[str, object]:
    return {
        "path": made.path,
        "outcome": made.outcome,
        "dry_run": dry_run,
        "agents": [*made.agents],
        "servers": [*made.servers],
        "from": [*imported.files],
        "backup": made.backup or None,
        "variables": [
            {"name": each.variable, "server": each.server, "place": each.place, "file": each.origin}
            for each in _withheld_secrets(made, imported)
        ],
        "problems": [
            {"server": each.server, "severity": each.severity, "text": each.text, "file": each.where}
            for each in imported.problems
        ],
        "notes": [*made.notes],
        "text": made.text if dry_run else None,
    }
