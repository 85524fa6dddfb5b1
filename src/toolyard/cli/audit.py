"""`toolyard audit`: show, follow or verify the audit log of a workspace.

Exit codes: 0 success, also if a configured workspace has no log yet; 1 the log was modified (with --verify) or cannot
be read; 2 there is no log (with --verify, or in a folder without a configuration), or the command or configuration is
wrong. Paths and names are escaped before they are printed, because agents choose them.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from toolyard.cli.common.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace, resolve_workspace
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, ToolError, ToolyardError
from toolyard.core.events import CallOutcome
from toolyard.core.text import printable
from toolyard.storage.audit_files import has_log
from toolyard.storage.audit_reader import RecordFilter, read
from toolyard.storage.audit_verifier import AuditFinding, Verification, verify
from toolyard.storage.state_folder import state_dir
from toolyard.workspace.agent_paths import resolve_agent_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolyard.storage.audit_files import AuditRecord

CHANGED = 1
NO_LOG = 2
_WIDE_COLUMNS = 140  # columns; a narrower terminal omits the reasons, which --json includes
_EXAMPLES = """\b
Examples:
  toolyard audit --last 20                  the newest 20 calls in this folder's workspace
  toolyard audit --follow --outcome denied  every refusal, as it happens
  toolyard audit --verify                   check the log for modifications
  toolyard audit --json | jq .target        the target of every call
"""
_NAME_SHARE = 6
"""The column of an agent's or a tool's name takes at most this fraction of the terminal's width."""
_OUTCOME_STYLES = {CallOutcome.OK: "green", CallOutcome.ASKED: "yellow", CallOutcome.CANCELLED: "yellow"}


@click.command(epilog=_EXAMPLES)
@workspace_option()
@agent_option("Only calls of this agent.")
@state_option("The folder for the state of all workspaces.")
@config_option("Use the workspace of this configuration file.")
@click.option("--follow", is_flag=True, help="Print new calls as they happen, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--verify", "check", is_flag=True, help="Verify the hash chain: exit 0 intact, 1 modified, 2 no log.")
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the newest N calls.")
@click.option("--tool", metavar="T", help="Only calls of this tool.")
@click.option(
    "--outcome", type=click.Choice([outcome.value for outcome in CallOutcome]), help="Only calls with this outcome."
)
def audit(
    *,
    workspace: str | None,
    agent: str | None,
    state: str | None,
    config_file: str | None,
    follow: bool,
    as_json: bool,
    check: bool,
    last: int | None,
    tool: str | None,
    outcome: str | None,
) -> None:
    """Show every tool call in a workspace, allowed or refused, in order."""
    if check and (follow or last is not None or tool is not None or outcome is not None):
        raise click.UsageError("--verify checks the whole log: omit --follow, --last, --tool and --outcome.")
    try:
        resolved = resolve_workspace(None, config_file, agent, needs_rights=False) if workspace is None else None
        if resolved is not None:
            resolved.warn_untrusted()
        folder = _state_folder(workspace, resolved, state, agent)
        if check:
            sys.exit(_verify(folder, as_json=as_json))
        if resolved is not None and resolved.config.source and not has_log(folder):
            click.echo("Nothing has been recorded in this workspace yet.", err=True)
            return
        only = RecordFilter(tool=tool, outcome=CallOutcome(outcome) if outcome else None, agent=agent)
        _show(read(folder, follow=follow, last=last, only=only), as_json=as_json, live=follow)
    except (ToolError, ConfigError) as error:
        if check and as_json:
            click.echo(json.dumps({"ok": False, "events": 0, "problems": [], "recovered": [], "error": str(error)}))
        click.echo(f"toolyard audit: {printable(str(error))}", err=True)
        sys.exit(NO_LOG)
    except ToolyardError as error:
        click.echo(f"toolyard audit: {printable(str(error))}", err=True)
        sys.exit(CHANGED)
    except KeyboardInterrupt:
        if not follow:
            raise


def _state_folder(
    workspace: str | None, resolved: ResolvedWorkspace | None, state: str | None, agent: str | None
) -> str:
    settings = Settings.from_environment()
    if resolved is None:
        return state_dir(state or settings.state_home, workspace or ".")
    return resolve_agent_paths(
        resolved.config, os.path.realpath(resolved.workspace), agent, settings, state or ""
    ).log_folder


def _verify(folder: str, *, as_json: bool) -> int:
    found = verify(folder)
    if as_json:
        click.echo(json.dumps(_verification_fields(found)))
    else:
        for finding in found.recovered:
            click.echo(f"recovered  {_describe_finding(finding)}")
        for finding in found.problems:
            click.echo(f"problem    {_describe_finding(finding)}")
        events = f"{found.events} event{'' if found.events == 1 else 's'}"
        verdict = "hash chain verified" if found.ok else "the log was modified"
        click.echo(f"{events}: {verdict} ({printable(folder)})")
    return 0 if found.ok else CHANGED


def _verification_fields(found: Verification) -> dict[str, object]:
    return {
        "ok": found.ok,
        "events": found.events,
        "problems": [finding._asdict() for finding in found.problems],
        "recovered": [finding._asdict() for finding in found.recovered],
    }


def _describe_finding(finding: AuditFinding) -> str:
    return f"line {finding.line}: {finding.what}" if finding.line else finding.what


def _show(records: Iterable[AuditRecord], *, as_json: bool, live: bool) -> None:
    if as_json:
        for record in records:
            click.echo(_json_line(record))
    elif sys.stdout.isatty() and not live:
        _show_table(records)
    else:
        for record in records:
            click.echo(_plain_line(record))


def _json_line(record: AuditRecord) -> str:
    mark = {"mark": record.mark} if record.mark else {}
    fields = {"seq": record.seq, "time": record.time, **asdict(record.event), **mark}
    # json.dumps does not escape DEL, which terminals interpret.
    return json.dumps({**fields, "prev": record.prev, "hash": record.hash}).replace("\x7f", "\\u007f")


def _plain_line(record: AuditRecord) -> str:
    event = record.event
    words = [record.time, str(record.seq), event.outcome.value, event.agent, event.tool, event.target]
    why = f"({event.reason})" if event.reason and event.outcome is not CallOutcome.OK else ""
    return printable(" ".join(word for word in (*words, f"{event.milliseconds:.1f}ms", why) if word))


def _show_table(records: Iterable[AuditRecord]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    console = Console(no_color=Settings.from_environment().no_color or None)
    roomy = console.width >= _WIDE_COLUMNS
    # Agents and servers choose the names: long ones are folded, so that the other columns keep their width.
    widest = console.width // _NAME_SHARE
    for title, width in (("#", None), ("time", None), ("agent", widest), ("tool", widest), ("outcome", None)):
        table.add_column(title, no_wrap=width is None, max_width=width, overflow="fold")
    table.add_column("target", overflow="fold", min_width=widest)
    if roomy:
        table.add_column("why", overflow="fold", min_width=widest)
    table.add_column("ms", justify="right", no_wrap=True)
    for record in records:
        event = record.event
        outcome = Text(event.outcome.value, style=_OUTCOME_STYLES.get(event.outcome, "red"))
        # Text, not str: values chosen by agents must not be parsed as markup.
        when = record.time if roomy else record.time[11:19]
        before = (str(record.seq), when, printable(event.agent), printable(event.tool))
        why = (printable(event.reason),) if roomy else ()
        after = (printable(event.target), *why, f"{event.milliseconds:.1f}")
        table.add_row(*map(Text, before), outcome, *map(Text, after))
    console.print(table)
