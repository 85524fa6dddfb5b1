"""`toolyard init`: write a first configuration, with the servers of other programs.

Exit codes: 0 written, or nothing to do; 1 a file is in the way; 2 a file or an option is wrong.
"""

from __future__ import annotations

import os

import click

from toolyard.cli.init.output import InitResult, print_result
from toolyard.config.backends import BackendKind, backend_kind, suggest_backend
from toolyard.config.clients import settings_file
from toolyard.config.clients.clients import CLIENTS
from toolyard.config.loader import CONFIG_NAME, parse_config
from toolyard.config.server_import import ImportedServers, entry_as_written, import_servers
from toolyard.config.settings import Settings
from toolyard.config.template import agent_ids, default_backend_kind, starting_config
from toolyard.config.user_servers_file import add_servers
from toolyard.core.errors import ToolError, ValidationError

_TEAM_SIZE = 2
_EXAMPLES = """\b
Examples:
  toolyard init                                    one agent, in ./toolyard.yaml
  toolyard init --backend claude --from claude     with the servers that Claude Code has
  toolyard init --from .mcp.json --from cursor     servers of several programs
  toolyard init --backend gemini --backend codex   a team of two
  toolyard init --from gemini --servers            into your own servers file instead
  toolyard init --schema > toolyard.schema.json    the JSON Schema, for editors
"""


@click.command(epilog=_EXAMPLES)
@click.option("--output", metavar="F", help=f"The file to write.  [default: {CONFIG_NAME}]")
@click.option(
    "--backend",
    "backends",
    metavar="TYPE",
    multiple=True,
    help="gemini, openai, claude, ollama, claude_code, codex ...; repeat it for more agents.  "
    "[default: the API whose key is set, else gemini]",
)
@click.option("--team", is_flag=True, help="Configure two agents.")
@click.option(
    "--from",
    "sources",
    metavar="F|CLIENT",
    multiple=True,
    help=f"Import the servers of a file (.mcp.json ...) or of a client: {', '.join(CLIENTS)}.",
)
@click.option(
    "--servers", "to_servers", is_flag=True, help="Add them to your own servers file, and write no other file."
)
@click.option("--force", is_flag=True, help="Replace an existing file; a backup is written beside it.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the configuration.")
@click.option("--json", "wants_json", is_flag=True, help="Print JSON.")
def init(
    *,
    output: str | None,
    backends: tuple[str, ...],
    team: bool,
    sources: tuple[str, ...],
    to_servers: bool,
    force: bool,
    dry_run: bool,
    schema: bool,
    wants_json: bool,
) -> None:
    """Write a first configuration: toolyard.yaml in the current folder.

    Secrets of imported servers are not copied: variables replace them, and the output lists which ones to set.
    """
    if schema:
        from toolyard.config.schema import schema_text  # slow: it reads the sources of the models

        click.echo(schema_text(), nl=False)
        return
    settings = Settings.from_environment()
    here = os.getcwd()
    if to_servers:
        if not sources or backends or team or output:
            raise ValidationError.of("servers", "can be used with --from only", hint="Name the source: --from claude")
        imported = import_servers(sources, settings, project=here, folder=settings.home)
        made = _write_servers_file(imported, settings, force=force, dry_run=dry_run)
    else:
        path = os.path.abspath(output or CONFIG_NAME)
        kinds = _backend_kinds(backends, settings, is_team=team)
        imported = import_servers(sources, settings, project=here, folder=os.path.dirname(path))
        made = _write_configuration(path, kinds, imported, force=force, dry_run=dry_run)
        made = made.with_notes(_missing_keys(kinds, settings))
    print_result(made, imported, dry_run=dry_run, wants_json=wants_json)


def _backend_kinds(names: tuple[str, ...], settings: Settings, *, is_team: bool) -> list[BackendKind]:
    kinds: list[BackendKind] = []
    for name in names:
        kind = backend_kind(name)
        if kind is None:
            raise ValidationError.of("backend", f"{name!r} is not a backend", hint=suggest_backend(name))
        kinds.append(kind)
    kinds = kinds or [default_backend_kind(settings.model_access)]
    return kinds * _TEAM_SIZE if is_team and len(kinds) == 1 else kinds


def _write_configuration(
    path: str, kinds: list[BackendKind], imported: ImportedServers, *, force: bool, dry_run: bool
) -> InitResult:
    text = starting_config(kinds, {entry.name: entry_as_written(entry) for entry in imported.entries})
    parse_config(text, path, env={})  # makes sure that the written file loads
    if os.path.islink(path):
        raise ToolError(
            f"{path} is a symbolic link to {os.readlink(path)}; nothing was written.",
            hint="Remove the link, or name the file itself with --output.",
        )
    replaces = os.path.lexists(path)
    if replaces and not force and not dry_run:
        raise ToolError(
            f"{path} already exists; nothing was written.",
            hint="Name another file with --output, or replace it with --force: a backup is written beside it.",
        )
    backup = ""
    if not dry_run:
        backup = settings_file.update_file(path, lambda _: text.encode(), should_backup=lambda _: True)
    names = tuple(entry.name for entry in imported.entries)
    outcome = "replaced" if replaces else "created"
    return InitResult(path, outcome, text, agents=tuple(agent_ids(kinds)), servers=names, backup=backup)


def _write_servers_file(imported: ImportedServers, settings: Settings, *, force: bool, dry_run: bool) -> InitResult:
    added = add_servers(imported.entries, settings, force=force, dry_run=dry_run)
    notes = tuple(
        f'"{name}" is already in {added.path} with other settings, and was not changed (--force replaces it).'
        for name in added.conflicting
    )
    outcome = "unchanged" if not added.names else "added" if added.existed else "created"
    return InitResult(added.path, outcome, added.text, servers=added.names, backup=added.backup_path, notes=notes)


def _missing_keys(kinds: list[BackendKind], settings: Settings) -> list[str]:
    notes: list[str] = []
    for kind in dict.fromkeys(kinds):
        if kind.needs_key and not any(settings.model_access.get(key) for key in kind.key_variables):
            notes.append(f"Set {' or '.join(kind.key_variables)} to your key for the {kind.title}.")
        if kind.api and not kind.default_model:
            notes.append(f"Replace CHANGE_ME by the name of a model of your {kind.title}.")
    return notes
