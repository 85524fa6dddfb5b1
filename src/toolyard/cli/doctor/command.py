"""`toolyard doctor`: check what works on this machine, and how to fix the rest.

Exit codes: 0 no failure (warnings included), 1 something fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

import click

from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.doctor.check import Check, Status
from toolyard.cli.doctor.checks import DoctorOptions, run_checks
from toolyard.config.settings import Settings
from toolyard.core.text import printable

FAILED = 1
_STYLES = {Status.OK: "green", Status.INFO: "blue", Status.WARN: "yellow", Status.FAIL: "bold red"}
_MARKS = {Status.OK: "✓", Status.INFO: "i", Status.WARN: "!", Status.FAIL: "✗"}
_EXAMPLES = """\b
Examples:
  toolyard doctor                       this machine, and this folder as a workspace
  toolyard doctor --workspace ~/project
  toolyard doctor --json | jq '.checks[] | select(.status == "fail")'
"""


@click.command(epilog=_EXAMPLES)
@workspace_option()
@config_option()
@agent_option("The agent of the configuration to check.")
@state_option("The folder for the state of all workspaces.")
@click.option("--json", "wants_json", is_flag=True, help="Print the checks as JSON.")
def doctor(
    *, workspace: str | None, config_file: str | None, agent: str | None, state: str | None, wants_json: bool
) -> None:
    """Check what works on this machine and what is missing, by trying it."""
    settings = Settings.from_environment()
    options = DoctorOptions(workspace, config_file, state, settings, agent)
    checks = tuple(
        replace(check, found=complete_commands(check.found), fix=complete_commands(check.fix))
        for check in run_checks(options)
    )
    failed = any(check.status is Status.FAIL for check in checks)
    if wants_json:
        click.echo(json.dumps({"ok": not failed, "checks": [asdict(check) for check in checks]}, indent=2))
    elif sys.stdout.isatty():
        _print_table(checks, no_color=settings.no_color)
    else:
        for check in checks:
            click.echo(_line(check))
    if failed:
        sys.exit(FAILED)


def _line(check: Check) -> str:
    fix = f"  ({check.fix})" if check.fix else ""
    return printable(f"{check.status.value:<4}  {check.what}: {check.found}{fix}")


def _print_table(checks: Sequence[Check], *, no_color: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in checks:
        # Text, not str: a path must not be parsed as markup.
        found = Text(printable(check.found))
        if check.fix:
            found.append(f"\n→ {printable(check.fix)}", style="dim")
        table.add_row(Text(_MARKS[check.status], style=_STYLES[check.status]), check.what, found)
    Console(no_color=no_color or None).print(table)
