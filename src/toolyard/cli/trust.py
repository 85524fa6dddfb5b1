"""`toolyard trust`: trust a configuration found in a folder, so that it may widen the policy and use variables.

Trust covers the current content of the file and of the files it includes: after any change the user must trust it
again. Exit codes: 0 success, 1 the user declined, or the file was not trusted (with --revoke), 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass

import click

from toolyard.cli.common.widening_check import paths_outside, widened_rights
from toolyard.config.loader import CONFIG_NAME, MAX_CONFIG_BYTES, parse_config
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.config.source_text import decode_text, read_bytes
from toolyard.core.text import printable
from toolyard.storage.trust import TrustRecord, TrustStore, content_digests, path_in_real_folder

NOT_TRUSTED = 1
_VARIABLE = re.compile(r"\$\{(\w+)")
_EXAMPLES = """\b
Examples:
  toolyard trust                   show what this folder's toolyard.yaml widens, and trust it
  toolyard trust ~/project --yes   trust it without confirmation
  toolyard trust --list            list what is trusted, and whether it has changed since
  toolyard trust --revoke          stop trusting the one of this folder
"""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A configuration that the user may trust, and what it widens."""

    path: str
    files: dict[str, str]
    """The digests of all files that would be trusted."""
    reasons: tuple[str, ...]
    variables: tuple[str, ...]


@click.command(epilog=_EXAMPLES)
@click.argument("path", required=False, default=".", metavar="[PATH]")
@click.option("--list", "wants_list", is_flag=True, help="List what is trusted.")
@click.option("--revoke", is_flag=True, help="Stop trusting the configuration.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; use it only for files you have read.")
@click.option("--json", "wants_json", is_flag=True, help="With --list, print JSON.")
def trust(*, path: str, wants_list: bool, revoke: bool, yes: bool, wants_json: bool) -> None:
    """Trust the current content of the configuration at PATH, a file or its folder.

    A toolyard.yaml in the current folder may have come with a project. Until you trust it, it cannot give agents more
    rights than the defaults, nor use variables of your environment.
    """
    settings = Settings.from_environment()
    store = TrustStore(settings.state_home)
    if wants_list:
        _show_records(store, as_json=wants_json)
        return
    file = os.path.abspath(os.path.join(path, CONFIG_NAME) if os.path.isdir(path) else path)
    if revoke:
        _revoke(store, file)
        return
    candidate = _read_candidate(file, settings.home)
    if not candidate.reasons and not candidate.variables:
        click.echo(printable(f"{file} widens nothing and uses no variables: it needs no trust."))
        return
    _show(candidate)
    if not yes and not _confirm_trust():
        click.echo("Not trusted.", err=True)
        sys.exit(NOT_TRUSTED)
    store.grant(file, candidate.files)
    click.echo("Trusted, until any of it changes.")


def _read_candidate(file: str, home: str) -> _Candidate:
    """Reads the file once, so that the user sees exactly what would be trusted."""
    raw = read_bytes(file, max_bytes=MAX_CONFIG_BYTES, hint="Name a toolyard.yaml, or the folder it lies in.")
    config = parse_config(decode_text(raw, file), file)
    variables = {name for template in config.templates.values() for name in _VARIABLE.findall(template)}
    reasons = (*widened_rights(config), *_outside_paths(config, file))
    return _Candidate(file, content_digests(file, raw, config, home), reasons, tuple(sorted(variables)))


def _outside_paths(config: Config, file: str) -> list[str]:
    """Returns the reasons for every agent, since any of them may be chosen later."""
    folder = os.path.dirname(file)
    named = [agent.backend.cwd for agent in config.agents if agent.backend.cwd]
    if "workspace" in config.toolyard.model_fields_set:
        named.append(config.toolyard.workspace)
    found = [reason for name in named or ["."] for reason in paths_outside(config, file, os.path.join(folder, name))]
    return list(dict.fromkeys(found))


def _show(candidate: _Candidate) -> None:
    click.echo(printable(candidate.path))
    if candidate.reasons:
        click.echo(printable(f"  widens what agents may do: {', '.join(candidate.reasons)}"))
    if candidate.variables:
        click.echo(printable(f"  uses variables of your environment: {', '.join(candidate.variables)}"))
    for file in candidate.files:
        if file != path_in_real_folder(candidate.path):
            click.echo(printable(f"  includes {file}{'' if candidate.files[file] else ' (missing)'}"))


def _confirm_trust() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("There is no terminal for the confirmation. If you have read the files, pass --yes.")
    return click.confirm("Have you read it, and do you trust it?", default=False, err=True)


def _revoke(store: TrustStore, file: str) -> None:
    if not store.revoke(file):
        click.echo(printable(f"{file} was not trusted."), err=True)
        sys.exit(NOT_TRUSTED)
    click.echo(printable(f"{file} is no longer trusted."))


def _show_records(store: TrustStore, *, as_json: bool) -> None:
    records = store.records()
    if as_json:
        fields = [{"path": each.path, "at": each.at, "state": _state(store, each)} for each in records]
        click.echo(json.dumps(fields, indent=2))
        return
    for each in records:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.at))
        click.echo(printable(f"{_state(store, each):<7}  {when}  {each.path}"))
    if not records:
        click.echo("No configuration is trusted.", err=True)


def _state(store: TrustStore, record: TrustRecord) -> str:
    if not os.path.exists(record.path):
        return "missing"
    return "trusted" if store.is_current(record) else "changed"
