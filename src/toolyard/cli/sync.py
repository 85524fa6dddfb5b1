"""`toolyard sync`: ask the servers for their tools, pin them, and write the tool files.

Exit codes: 0 fine; 1 when a server could not be asked or a changed tool waits to be accepted; 2 for wrong use.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from toolyard.app.codemode.syncing import SyncReport, SyncWish
from toolyard.app.codemode.syncing import sync as run_sync
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli.asking import SignIns, terminal_sign_ins
from toolyard.cli.audit import printable
from toolyard.cli.opening import find_place
from toolyard.codemode.catalog import Change, KnownTool, ToolChange
from toolyard.core.tokens import can_count

ATTENTION = 1
_SHOWN_CHANGES = 40
_EXAMPLES = """\b
Examples:
  toolyard sync                       ask new and changed servers, write servers/
  toolyard sync --refresh             ask all of them
  toolyard sync --accept github       trust what changed in github's tools
  toolyard sync --config team.yaml --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@click.option("--refresh", is_flag=True, help="Ask every server, also those that cannot have changed.")
@click.option("--accept", is_flag=True, help="Trust tools that changed since they were pinned.")
@click.option("--config", "config_file", metavar="F", help="The configuration file.  [default: toolyard.yaml]")
@click.option("--workspace", metavar="DIR", help="The workspace's folder.  [default: the current folder]")
@click.option("--state", metavar="DIR", help="Where catalog and audit log are kept, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print what was done as JSON.")
def sync(
    *,
    servers: tuple[str, ...],
    refresh: bool,
    accept: bool,
    config_file: str | None,
    workspace: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Connect to the configured MCP servers, pin their tools, and write each as a typed Python file.

    Servers are asked in parallel. A tool that changed since it was pinned is not called until you accept the change.
    A remote server that wants you to sign in shows the address here, once.
    """
    place = find_place(workspace, config_file)
    sign_ins = terminal_sign_ins()
    options = YardOptions(workspace=place.workspace, config=place.config, state_home=state, on_authorize=sign_ins)
    wish = SyncWish(servers, refresh=refresh, accept=accept)
    with Yard.open(options) as yard:
        if wants_json or sign_ins is None:
            report = run_sync(yard.codemode, wish)
        else:
            report = _with_progress(yard, wish, sign_ins)
        if wants_json:
            click.echo(json.dumps(_fields(report), indent=2))
        else:
            _show(report)
    if report.failed or report.quarantined:
        sys.exit(ATTENTION)


def _with_progress(yard: Yard, wish: SyncWish, sign_ins: SignIns) -> SyncReport:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("asking servers"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = len(wish.servers) or len(yard.codemode.resolved.entries)
        task = progress.add_task("", total=total)
        console = progress.console
        sign_ins.say = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)

        def on_asked(server: str, error: str) -> None:
            progress.update(task, advance=1, description=f"{'✗' if error else '✓'} {printable(server)}")

        return run_sync(yard.codemode, wish, on_asked)


def _fields(report: SyncReport) -> dict[str, Any]:
    return {
        "servers": report.servers,
        "tools": report.tools,
        "written": report.written,
        "seconds": round(report.seconds, 3),
        "failed": [{"server": server, "error": error} for server, error in report.failed],
        "asked": list(report.asked),
        "changes": [
            {"server": change.server, "tool": change.tool, "change": change.change.value} for change in report.changes
        ],
        "quarantined": [{"server": tool.server, "tool": tool.schema.name} for tool in report.quarantined],
        "plain_tokens": report.plain_tokens,
        "note": report.note,
    }


def _show(report: SyncReport) -> None:
    click.echo(
        f"{report.tools:,} tool{_plural(report.tools)} of {report.servers:,} server{_plural(report.servers)};"
        f" asked {len(report.asked)},"
        f" wrote {report.written:,} files in {report.seconds:.1f} s."
    )
    lines = _changes(report.changes)
    for line in lines[:_SHOWN_CHANGES]:
        click.echo(f"  {printable(line)}")
    if len(lines) > _SHOWN_CHANGES:
        click.echo(f"  … and {len(lines) - _SHOWN_CHANGES:,} more (--json has all)")
    if report.plain_tokens:
        about = "" if can_count() else "about "
        cost = f"{about}{report.plain_tokens:,} tokens"
        click.echo(f"Put into a model's context they would cost {cost}; as files, none.")
    if report.note:
        click.echo(f"! {printable(report.note)}", err=True)
    for server, error in report.failed:
        click.echo(f"✗ {printable(server)}: {printable(error)}", err=True)
    for tool in report.quarantined:
        _show_waiting(tool)


def _changes(changes: Sequence[ToolChange]) -> list[str]:
    """A line for each tool; where that would be too many, one for each server."""
    signs = {Change.ADDED: "+", Change.CHANGED: "~", Change.REMOVED: "-"}
    if len(changes) <= _SHOWN_CHANGES:
        return [f"{signs[change.change]} {change.server}.{change.tool}" for change in changes]
    counted = Counter((change.server, change.change) for change in changes)
    return [f"{signs[change]} {server}: {count} tool{_plural(count)}" for (server, change), count in counted.items()]


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _show_waiting(tool: KnownTool) -> None:
    """What changed in a tool that waits, for a person to judge."""
    import difflib
    from dataclasses import asdict

    click.echo(f"! {printable(f'{tool.server}.{tool.schema.name}')} changed since it was pinned:", err=True)
    before, after = (
        json.dumps(asdict(schema), indent=1, ensure_ascii=False).splitlines()
        for schema in (tool.schema, tool.waiting or tool.schema)
    )
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
        if not line.startswith("@@"):
            click.echo(click.style(f"    {printable(line)}", fg="green" if line.startswith("+") else "red"), err=True)
    click.echo(f"  To trust it: toolyard sync --accept {printable(tool.server)}", err=True)
