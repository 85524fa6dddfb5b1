"""`toolyard tools`: what is known of the tools, and whether an agent may call them. Starts no server.

Exit codes: 0 fine, also where there is nothing to list, 1 when the server failed, 2 for wrong use, also for a name
that is no tool's.
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

_WHO = "Which agent of the configuration they are shown for.  [default: each]"
_STATE = "Where the catalog is kept, outside every workspace."
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
    """A tool with all that is told of it."""

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
    """List the tools that are known, or show one of them."""


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
    """List every tool with the file that stands for it."""
    place = resolve_workspace(workspace, config_file, agent)
    options = YardOptions(workspace=place.workspace, config=place.config, agent=agent, state_home=state)
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
            complete_commands("No tool is known here. Name your servers with --config, and run `toolyard sync`."),
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

    NAME is SERVER TOOL, SERVER.TOOL, the name that code imports, or the path of its file.
    """
    place = resolve_workspace(workspace, config_file, agent)
    options = YardOptions(workspace=place.workspace, config=place.config, agent=agent, state_home=state)
    with Yard.open(options) as yard:
        names = _known_names(yard)
        named = names.find(words)
        if named.is_own:
            hint = "`toolyard call` runs it; docs/tools.md describes it."
            raise ValidationError.of("tool", f"{named} is one of Toolyard's own file tools", hint=hint)
        shown = next((each for each in _all_rows(yard, names) if each.named == named), None)
        schema = _schema(yard, named)
    if shown is None or schema is None:
        raise ValidationError.of("tool", f"{named} has no file yet", hint="Run `toolyard sync`.")
    if wants_json:
        more = {"description": schema.description, "input_schema": schema.input_schema}
        click.echo(json.dumps({**shown.fields(), **more, "output_schema": schema.output_schema}, indent=2))
    else:
        _print_tool(shown, schema)


def _known_names(yard: Yard) -> ToolNames:
    """Where no server is configured, as without `--config`, what was synced before is shown, as `search` finds it."""
    return ToolNames(yard.codemode, includes_unconfigured=not yard.codemode.resolved_servers.entries)


def _all_rows(yard: Yard, names: ToolNames) -> Iterator[_ToolRow]:
    states = ToolStates(yard)
    for named, compiled in names.all():
        yield _ToolRow(named, compiled, names.file_path(compiled), states.state_of(named))


def _belongs_to(shown: _ToolRow, server: str) -> bool:
    return server in {shown.named.server, shown.compiled.path.split("/")[1]}


def _check_server(yard: Yard, server: str, names: ToolNames) -> None:
    """Raises SystemFault for a server that has failed, ValidationError for a name that is nobody's."""
    failed = next((each for each in yard.codemode.catalog.servers() if each.name == server and each.error), None)
    if failed is not None and server not in names.servers:
        again = f"When it is mended, run `toolyard sync {shlex.quote(server)}`."
        said = without_server_name(server, failed.error)
        subject = "it " if failed.error.startswith("Server ") else ""
        raise SystemFault(f"No tools of {server!r} are known: {subject}{said}", hint=again)
    known = {named.server: tool.path.split("/")[1] for named, tool in names.all()}
    if known and server not in {*known, *known.values()}:
        raise ValidationError.of("server", f"no tools of {server!r} are known", hint=did_you_mean(server, known))


def _schema(yard: Yard, named: NamedTool) -> ToolSchema | None:
    if named.is_custom:
        custom = yard.codemode.custom.get(f"{named.server}.{named.tool}")
        return custom.schema if custom is not None else None
    known = yard.codemode.catalog.tool(named.server, named.tool)
    return known.schema if known is not None else None


def _print_tool(shown: _ToolRow, schema: ToolSchema) -> None:
    click.echo(click.style(printable(shown.compiled.signature), bold=True))
    module = shown.compiled.path.removesuffix(".py").split("/")
    click.echo(f"  import  from {'.'.join(module[:2])} import {shown.compiled.function}")
    click.echo(f"  file    {printable(shown.path)}")
    click.echo(f"  state   {printable(shown.state.text)}")
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
        said = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
        kind = said.get("type")
        facts = [kind] if isinstance(kind, str) else []
        facts += ["required"] if name in needed else []
        facts += [f"default {json.dumps(said['default'])}"] if "default" in said else []
        facts += [f"one of {json.dumps(said['enum'])}"] if "enum" in said else []
        text = " ".join(str(said.get("description", "")).split())
        yield f"{name} ({', '.join(facts)})  {text}".rstrip() if facts else f"{name}  {text}".rstrip()
