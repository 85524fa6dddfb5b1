"""`toolyard tools`: show the known tools, and whether an agent may call them. Starts no server.

Exit codes: 0 success, also for an empty list; 1 the server failed; 2 wrong usage, or an unknown tool.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import click

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.common.server_errors import without_server_name
from toolyard.cli.tools.names import NamedTool, ToolNames
from toolyard.cli.tools.status import ToolState, ToolStates
from toolyard.codemode.files import CompiledTool
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import SystemFault, ValidationError
from toolyard.core.text import printable
from toolyard.core.upstream import ToolSchema

_WHO = "The agent of the configuration to show them for.  [default: each]"
_STATE = "The folder for the catalog, outside every workspace."
_LIST_EXAMPLES = """\b
Examples:
  toolyard tools list
  toolyard tools list --server github --agent writer
  toolyard tools list --json --config team.yaml | jq '.[] | select(.state == "quarantined")'
"""
_SHOW_EXAMPLES = """\b
Examples:
  toolyard tools show time.get_current_time
  toolyard tools show servers/github/create_issue.py
  toolyard tools show tools.web.screenshot --json
"""


@dataclass(frozen=True, slots=True)
class _ToolRow:
    """A tool with its file and state."""

    named: NamedTool
    compiled: CompiledTool
    path: str
    state: ToolState

    def fields(self) -> dict[str, Any]:
        return {
            "server": self.named.server,
            "tool": self.named.tool,
            "custom": self.named.is_custom,
            "path": self.path,
            "signature": self.compiled.signature,
            "summary": self.compiled.summary,
            **self.state.fields(),
        }


@click.group()
def tools() -> None:
    """List the known tools, or show one of them."""


@tools.command(name="list", epilog=_LIST_EXAMPLES)
@click.option("--server", metavar="S", help="Only the tools of this server, or of this group of custom tools.")
@config_option()
@workspace_option()
@agent_option(_WHO)
@state_option(_STATE)
@click.option("--json", "wants_json", is_flag=True, help="Print the tools as JSON.")
def list_tools(
    *,
    server: str | None,
    config_file: str | None,
    workspace: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """List every tool with its file."""
    resolved = resolve_workspace(workspace, config_file, agent)
    options = YardOptions(workspace=resolved.workspace, config=resolved.config, agent=agent, state_home=state)
    with Yard.open(options) as yard:
        names = _known_names(yard)
        if server is not None:
            _check_server(yard, server, names)
        found = [each for each in _all_rows(yard, names) if server is None or _belongs_to(each, server)]
    if wants_json:
        click.echo(json.dumps([each.fields() for each in found], indent=2))
    for each in found if not wants_json else ():
        mark = f"  [{each.state.word}]" if each.state.word != "pinned" else ""
        click.echo(f"{click.style(printable(str(each.named)), bold=True)}{mark}  {printable(each.path)}")
        click.echo(f"    {printable(each.compiled.summary)}")
    if not found:
        click.echo(
            complete_commands("No tools are known here. Pass your servers with --config, and run `toolyard sync`."),
            err=True,
        )


@tools.command(name="show", epilog=_SHOW_EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="NAME")
@config_option()
@workspace_option()
@agent_option(_WHO)
@state_option(_STATE)
@click.option("--json", "wants_json", is_flag=True, help="Print it as JSON, with its schemas.")
def show_tool(
    *,
    words: tuple[str, ...],
    config_file: str | None,
    workspace: str | None,
    agent: str | None,
    state: str | None,
    wants_json: bool,
) -> None:
    """Show one tool: signature, description, arguments, its file, and whether it may be called.

    NAME is SERVER TOOL, SERVER.TOOL, the import path in code, or the path of its file.
    """
    resolved = resolve_workspace(workspace, config_file, agent)
    options = YardOptions(workspace=resolved.workspace, config=resolved.config, agent=agent, state_home=state)
    with Yard.open(options) as yard:
        names = _known_names(yard)
        named = names.find(words)
        if named.is_own:
            hint = "`toolyard call` runs it; docs/tools.md describes it."
            raise ValidationError.of("tool", f"{named} is one of Toolyard's own file tools", hint=hint)
        row = next((each for each in _all_rows(yard, names) if each.named == named), None)
        schema = _schema(yard, named)
    if row is None or schema is None:
        raise ValidationError.of("tool", f"{named} has no file yet", hint="Run `toolyard sync`.")
    if wants_json:
        more = {"description": schema.description, "input_schema": schema.input_schema}
        click.echo(json.dumps({**row.fields(), **more, "output_schema": schema.output_schema}, indent=2))
    else:
        _print_tool(row, schema)


def _known_names(yard: Yard) -> ToolNames:
    """Returns the names; without configured servers (no `--config`) those of earlier syncs, as `search` finds
    them.
    """
    return ToolNames(yard.codemode, includes_unconfigured=not yard.codemode.resolved_servers.entries)


def _all_rows(yard: Yard, names: ToolNames) -> Iterator[_ToolRow]:
    states = ToolStates(yard)
    for named, compiled in names.all():
        yield _ToolRow(named, compiled, names.file_path(compiled), states.state_of(named))


def _belongs_to(row: _ToolRow, server: str) -> bool:
    return server in {row.named.server, row.compiled.path.split("/")[1]}


def _check_server(yard: Yard, server: str, names: ToolNames) -> None:
    """Raises SystemFault for a server that failed, ValidationError for an unknown one."""
    failed = next((each for each in yard.codemode.catalog.servers() if each.name == server and each.error), None)
    if failed is not None and server not in names.servers:
        again = f"After fixing it, run `toolyard sync {shlex.quote(server)}`."
        error = without_server_name(server, failed.error)
        subject = "it " if failed.error.startswith("Server ") else ""
        raise SystemFault(f"No tools of {server!r} are known: {subject}{error}", hint=again)
    known = {named.server: tool.path.split("/")[1] for named, tool in names.all()}
    if known and server not in {*known, *known.values()}:
        raise ValidationError.of("server", f"no tools of {server!r} are known", hint=did_you_mean(server, known))


def _schema(yard: Yard, named: NamedTool) -> ToolSchema | None:
    if named.is_custom:
        custom = yard.codemode.custom.get(f"{named.server}.{named.tool}")
        return custom.schema if custom is not None else None
    known = yard.codemode.catalog.tool(named.server, named.tool)
    return known.schema if known is not None else None


def _print_tool(row: _ToolRow, schema: ToolSchema) -> None:
    click.echo(click.style(printable(row.compiled.signature), bold=True))
    module = row.compiled.path.removesuffix(".py").split("/")
    click.echo(f"  import  from {'.'.join(module[:2])} import {row.compiled.function}")
    click.echo(f"  file    {printable(row.path)}")
    click.echo(f"  state   {printable(row.state.text)}")
    if schema.description.strip():
        click.echo()
        for line in schema.description.strip().splitlines():
            click.echo(f"  {printable(line)}")
    lines = list(_argument_lines(schema))
    if lines:
        click.echo("\n  Arguments:")
        for line in lines:
            click.echo(f"    {printable(line)}")


def _argument_lines(schema: ToolSchema) -> Iterator[str]:
    properties: object = schema.input_schema.get("properties")
    required: object = schema.input_schema.get("required")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    for name, about in cast("dict[str, object]", properties).items() if isinstance(properties, dict) else ():
        details = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
        kind = details.get("type")
        facts = [kind] if isinstance(kind, str) else []
        facts += ["required"] if name in needed else []
        facts += [f"default {json.dumps(details['default'])}"] if "default" in details else []
        facts += [f"one of {json.dumps(details['enum'])}"] if "enum" in details else []
        text = " ".join(str(details.get("description", "")).split())
        yield f"{name} ({', '.join(facts)})  {text}".rstrip() if facts else f"{name}  {text}".rstrip()
