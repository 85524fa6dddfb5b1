"""`toolyard sync`: ask the servers for their tools, pin them, and write the tool files.

Exit codes: 0 success; 1 a server failed or a changed tool waits for acceptance; 2 wrong usage, or nothing to sync.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.pattern_checks import KnownToolNames, UnmatchedPattern, unmatched_patterns
from toolyard.cli.common.prompts import SignInPrompt, terminal_sign_in_prompt
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.common.server_errors import format_failures, last_stderr_lines, without_server_name
from toolyard.cli.sync.suggest_file import check_configured
from toolyard.codemode.catalog import FILE_NAME, ChangeKind, KnownTool, ToolChange, set_aside
from toolyard.codemode.file_writer import CUSTOM_PREFIX
from toolyard.codemode.last_sync import ToolNames
from toolyard.codemode.service import CodeMode
from toolyard.codemode.sync import OnServerAnswered
from toolyard.codemode.sync_report import SyncReport, SyncRequest, ignore_answer, run_sync
from toolyard.core.events import CallOutcome
from toolyard.core.text import printable
from toolyard.core.tokens import has_tokenizer

ATTENTION = 1
_SHOWN_CHANGES = 40
_EXAMPLES = """\b
Examples:
  toolyard sync                       ask new and changed servers, write servers/
  toolyard sync --refresh             ask all of them
  toolyard sync --dry-run             show what would change, and write nothing
  toolyard sync --accept github       accept the changes in github's tools
  toolyard sync --config team.yaml --json
"""

SyncFunction = Callable[[CodeMode, SyncRequest, OnServerAnswered], SyncReport]


@click.command(epilog=_EXAMPLES)
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
@click.option("--refresh", is_flag=True, help="Ask every server, including those that cannot have changed.")
@click.option("--accept", is_flag=True, help="Accept tools that changed since they were pinned.")
@click.option("--rebuild", is_flag=True, help="Replace a damaged catalog first: all tools are pinned again.")
@click.option("--dry-run", is_flag=True, help="Ask, show what would change, and write nothing.")
@config_option()
@workspace_option()
@agent_option("The agent whose workspace is meant, if agents have their own folders.")
@state_option("The folder for catalog and audit log, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print the report as JSON.")
def sync(
    *,
    servers: tuple[str, ...],
    refresh: bool,
    accept: bool,
    rebuild: bool,
    dry_run: bool,
    config_file: str | None,
    workspace: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Connect to the configured MCP servers, pin their tools, and write each as a typed Python file.

    Servers are asked in parallel. A tool that changed since it was pinned is not called until you accept the change.
    The address to sign in at a remote server is shown once.
    """
    if dry_run and (accept or rebuild):
        raise click.UsageError("--accept and --rebuild write, --dry-run does not: omit one of them.")
    resolved = resolve_workspace(workspace, config_file, agent)
    sign_ins = terminal_sign_in_prompt()
    options = YardOptions(
        workspace=resolved.workspace, config=resolved.config, agent=agent, state_home=state, on_authorize=sign_ins
    )
    wish = SyncRequest(servers, refresh=refresh, accept=accept)
    run = _preview if dry_run else run_sync
    with Yard.open(options) as yard:
        if rebuild:
            _set_catalog_aside(yard)
        if not servers:
            check_configured(yard.codemode)
        if wants_json or sign_ins is None:
            report = run(yard.codemode, wish, ignore_answer)
        else:
            report = _with_progress(yard, run, wish, sign_ins)
        idle = _unmatched_patterns(yard.codemode, report.names)
        if wants_json:
            click.echo(json.dumps(_report_fields(report, idle), indent=2))
        else:
            _print_report(report, idle, dry_run=dry_run)
    if report.failed or report.quarantined:
        sys.exit(ATTENTION)


def _set_catalog_aside(yard: Yard) -> None:
    path = os.path.join(yard.codemode.deps.state, FILE_NAME)
    if (backup := set_aside(path)) is not None:
        yard.record("sync", f"The catalog was set aside as {backup}.", CallOutcome.OK)
        click.echo(printable(f"The old catalog was moved to {backup}. Its pinned tools are not compared."), err=True)


def _preview(codemode: CodeMode, wish: SyncRequest, on_asked: OnServerAnswered) -> SyncReport:
    from toolyard.codemode.sync_preview import preview_sync  # imports the connections, which not every sync needs

    return preview_sync(codemode, wish, on_asked)


def _unmatched_patterns(codemode: CodeMode, names: ToolNames) -> tuple[UnmatchedPattern, ...]:
    servers = {name: tools for name, tools in names.items() if not name.startswith(CUSTOM_PREFIX)}
    groups = {
        name.removeprefix(CUSTOM_PREFIX): tools for name, tools in names.items() if name.startswith(CUSTOM_PREFIX)
    }
    return unmatched_patterns(
        codemode.deps.config, codemode.resolved_servers, KnownToolNames.of(codemode.resolved_servers, servers, groups)
    )


def _with_progress(yard: Yard, run: SyncFunction, wish: SyncRequest, sign_ins: SignInPrompt) -> SyncReport:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("asking servers"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        total = len(wish.servers) or len(yard.codemode.resolved_servers.entries)
        task = progress.add_task("", total=total)
        console = progress.console
        sign_ins.show = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)

        def on_asked(server: str, error: str) -> None:
            progress.update(task, advance=1, description=f"{'✗' if error else '✓'} {printable(server)}")

        return run(yard.codemode, wish, on_asked)


def _report_fields(report: SyncReport, idle: Sequence[UnmatchedPattern]) -> dict[str, Any]:
    return {
        "servers": report.servers,
        "tools": report.tools,
        "custom_tools": report.custom,
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
        "notices": list(report.notices),
        "warnings": [{"where": each.where, "pattern": each.pattern, "hint": each.hint} for each in idle],
    }


def _print_report(report: SyncReport, idle: Sequence[UnmatchedPattern], *, dry_run: bool) -> None:
    custom = f" and {report.custom:,} custom tool{_plural(report.custom)}" if report.custom else ""
    answered = report.answered_servers
    failed = f" {printable(format_failures([server for server, _ in report.failed]))};" if report.failed else ""
    wrote = "wrote nothing" if dry_run else f"wrote {report.written:,} files"
    click.echo(
        f"{report.tools:,} tool{_plural(report.tools)} of {answered:,} server{_plural(answered)}{custom};{failed}"
        f" asked {len(report.asked)}, {wrote} in {report.seconds:.1f} s."
    )
    lines = _change_lines(report.changes)
    for line in lines[:_SHOWN_CHANGES]:
        click.echo(f"  {printable(line)}")
    if len(lines) > _SHOWN_CHANGES:
        click.echo(f"  … and {len(lines) - _SHOWN_CHANGES:,} more (--json lists all)")
    if report.plain_tokens:
        about = "" if has_tokenizer() else "about "
        cost = f"{about}{report.plain_tokens:,} tokens"
        click.echo(f"In a model's context they would cost {cost}; as files they cost none.")
    if report.note:
        click.echo(f"! {printable(complete_commands(report.note))}", err=True)
    for notice in report.notices:
        click.echo(f"! {printable(notice)}", err=True)
    for each in idle:
        click.echo(f"! {printable(f'{each} {each.hint}'.rstrip())}", err=True)
    for server, error in report.failed:
        click.echo(
            f"✗ {printable(server)}: {printable(complete_commands(without_server_name(server, error)))}", err=True
        )
        for line in last_stderr_lines(report.stderr_of_failed.get(server, ""), error):
            click.echo(f"    {printable(line)}", err=True)
    if report.failed:
        click.echo(f"After fixing this, run {printable(complete_commands('`toolyard sync`'))}.", err=True)
    for tool in report.quarantined:
        _show_quarantined(tool)


def _change_lines(changes: Sequence[ToolChange]) -> list[str]:
    """Returns a line per tool, or per server if there are too many tools."""
    signs = {ChangeKind.ADDED: "+", ChangeKind.CHANGED: "~", ChangeKind.REMOVED: "-"}
    if len(changes) <= _SHOWN_CHANGES:
        return [f"{signs[change.change]} {_import_path(change.server)}.{change.tool}" for change in changes]
    counted = Counter((_import_path(change.server), change.change) for change in changes)
    return [f"{signs[change]} {server}: {count} tool{_plural(count)}" for (server, change), count in counted.items()]


def _import_path(server: str) -> str:
    """Returns a group of custom tools as code imports it."""
    return server.replace("/", ".", 1) if server.startswith(CUSTOM_PREFIX) else server


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _show_quarantined(tool: KnownTool) -> None:
    """Prints the changes of a quarantined tool for review."""
    import difflib
    from dataclasses import asdict

    click.echo(f"! {printable(f'{tool.server}.{tool.schema.name}')} changed since it was pinned:", err=True)
    before, after = (
        json.dumps(asdict(schema), indent=1, ensure_ascii=False).splitlines()
        for schema in (tool.schema, tool.pending or tool.schema)
    )
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]:
        if not line.startswith("@@"):
            click.echo(click.style(f"    {printable(line)}", fg="green" if line.startswith("+") else "red"), err=True)
    trust = complete_commands(f"`toolyard sync --accept {shlex.quote(tool.server)}`").strip("`")
    click.echo(f"  To accept it: {printable(trust)}", err=True)
