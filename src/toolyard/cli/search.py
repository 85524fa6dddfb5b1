"""`toolyard search`: find tools of the configured servers by what they do. Starts no server."""

from __future__ import annotations

import json
import sys

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, config_option, runnable, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import find_place
from toolyard.cli.common.server_errors import counted_failures
from toolyard.codemode.service import CodeMode
from toolyard.core.text import printable

NOTHING = 1
_MOST = 100
_EXAMPLES = """\b
Examples:
  toolyard search "create an issue"
  toolyard search "send a message to a channel" --top 3
  toolyard search "read a spreadsheet" --config team.yaml --json
"""


@click.command(epilog=_EXAMPLES)
@click.argument("query")
@click.option("--top", metavar="N", type=click.IntRange(1, _MOST), default=5, show_default=True, help="How many.")
@config_option()
@workspace_option()
@agent_option("Whose workspace, where the agents have folders of their own.")
@state_option("Where the catalog is kept, outside every workspace.")
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
    """Find tools by what they do, the best first. Exit code 1 when nothing was found, as with grep."""
    place = find_place(workspace, config_file, agent)
    options = YardOptions(workspace=place.workspace, config=place.config, agent=agent, state_home=state)
    with Yard.open(options) as yard:
        hits = yard.codemode.find(query, top)
        unknown = _why_nothing_is_known(yard.codemode)
        note = yard.codemode.index.note
    if wants_json:
        fields = ("server", "tool", "path", "score", "summary", "signature")
        click.echo(json.dumps([{name: getattr(hit, name) for name in fields} for hit in hits], indent=2))
    for hit in hits if not wants_json else ():
        click.echo(f"{click.style(printable(f'{hit.server}.{hit.tool}'), bold=True)}  {printable(hit.path)}")
        click.echo(f"    {printable(hit.signature)}")
        click.echo(f"    {printable(hit.summary)}")
    if note and (hits or not unknown):
        click.echo(f"! {printable(runnable(note))}", err=True)
    if not hits:
        reason = unknown or "No tool fits."
        click.echo(runnable(reason), err=True)
        sys.exit(NOTHING)


def _why_nothing_is_known(mode: CodeMode) -> str:
    """Why there is no tool that could be found, and what to do about it; empty where there are some."""
    if mode.catalog.counts():
        return ""
    if not mode.resolved.entries and not mode.resolved.errors and not len(mode.custom):
        return (
            "No servers are configured. Add one under `toolyard.available_mcp_servers`, or name the server file of"
            " another program in `toolyard.server_files`; then run `toolyard sync`."
        )
    if failed := [server.name for server in mode.catalog.servers() if server.error]:
        return f"No server has answered: {counted_failures(failed)}. `toolyard doctor` says why."
    return "Nothing is known of any server yet: run `toolyard sync`."
