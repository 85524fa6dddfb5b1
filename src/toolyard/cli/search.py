"""`toolyard search`: search the tools of the configured servers by what they do. Starts no server."""

from __future__ import annotations

import json
import sys

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.common.server_errors import format_failures
from toolyard.codemode.service import CodeMode
from toolyard.core.text import printable

NO_MATCH = 1
_MAX_RESULTS = 100
_EXAMPLES = """\b
Examples:
  toolyard search "create an issue"
  toolyard search "send a message to a channel" --top 3
  toolyard search "read a spreadsheet" --config team.yaml --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("query")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(1, _MAX_RESULTS),
    default=5,
    show_default=True,
    help="Maximum number of tools.",
)
@config_option()
@workspace_option()
@agent_option("The agent whose workspace is meant, if agents have their own folders.")
@state_option("The folder for the catalog, outside every workspace.")
@click.option("--json", "wants_json", is_flag=True, help="Print the tools as JSON.")
def search(
    *,
    query: str,
    top: int,
    config_file: str | None,
    workspace: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Search tools by what they do, best match first. Exit code 1 if nothing matches, as with grep."""
    resolved = resolve_workspace(workspace, config_file, agent)
    options = YardOptions(workspace=resolved.workspace, config=resolved.config, agent=agent, state_home=state)
    with Yard.open(options) as yard:
        hits = yard.codemode.find_tools(query, top)
        unknown = _no_tools_reason(yard.codemode)
        note = yard.codemode.index.note
    if wants_json:
        fields = ("server", "tool", "path", "score", "summary", "signature")
        click.echo(json.dumps([{name: getattr(hit, name) for name in fields} for hit in hits], indent=2))
    for hit in hits if not wants_json else ():
        click.echo(f"{click.style(printable(f'{hit.server}.{hit.tool}'), bold=True)}  {printable(hit.path)}")
        click.echo(f"    {printable(hit.signature)}")
        click.echo(f"    {printable(hit.summary)}")
    if note and (hits or not unknown):
        click.echo(f"! {printable(complete_commands(note))}", err=True)
    if not hits:
        reason = unknown or "No tool matches."
        click.echo(complete_commands(reason), err=True)
        sys.exit(NO_MATCH)


def _no_tools_reason(codemode: CodeMode) -> str:
    """Returns why no tool is known and what to do about it; empty if some are known."""
    if codemode.catalog.tool_counts():
        return ""
    if not codemode.resolved_servers.entries and not codemode.resolved_servers.errors and not len(codemode.custom):
        return (
            "No servers are configured. Add one under `toolyard.available_mcp_servers`, or name the server file of"
            " another program in `toolyard.server_files`; then run `toolyard sync`."
        )
    if failed := [server.name for server in codemode.catalog.servers() if server.error]:
        return f"No server has answered: {format_failures(failed)}. `toolyard doctor` shows why."
    return "No server has been asked yet: run `toolyard sync`."
