"""`toolyard mcp`: serve a workspace to an agent."""

from __future__ import annotations

import click

from toolyard.app.toolsets import Toolset, Toolsets, has_code_mode, sets_of
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option
from toolyard.cli.common.param_types import NameChoice, parse_toolsets_option
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.cli.common.serve import errors_option, http_options, serve
from toolyard.cli.mcp.backend_options import with_backend_options
from toolyard.config.settings import Settings
from toolyard.core.errors import ErrorForm
from toolyard.core.permission_modes import PermissionMode

_EXAMPLES = """\b
Examples:
  toolyard mcp --workspace ~/project
  claude mcp add toolyard -- toolyard mcp --workspace ~/project
  TOOLYARD_TOKEN=$(openssl rand -hex 32) toolyard mcp --workspace ~/project --http 127.0.0.1:8765
  toolyard mcp --permission-mode plan --tools reference
  claude mcp add yard -- toolyard mcp --config ~/toolyard.yaml --workspace ~/project --tools code
"""
_TOOLSETS = (
    "claude: files and Bash as Claude Code names them. reference: files as the reference server names them. "
    "code: search_tools, Python, commands and files, with the MCP servers behind them. minimal: only the first two. "
    "workspace: snapshots. all: everything. Separate several by commas: code,workspace."
)
_HTTP = "Serve HTTP instead of stdio: MCP at /mcp, plain requests at /tools and /execute (described at /docs)."
_CODE_GROUP = "code_execution"  # as `in_context_tools` names it


@click.command(epilog=_EXAMPLES)
@config_option()
@workspace_option("The folder to serve.  [default: the current folder]")
@click.option("--permission-mode", type=NameChoice([m.value for m in PermissionMode]), help="[default: strict]")
@agent_option("The agent of the configuration to serve.")
@click.option("--fresh", is_flag=True, help="Empty the folder first, after a snapshot of it (`fresh: true`).")
@click.option("--allow-tool", metavar="PATTERN", multiple=True, help="Serve only these tools (`allowed_tools`).")
@click.option("--exclude-tool", metavar="PATTERN", multiple=True, help="Do not serve these tools (`exclude_tools`).")
@click.option(
    "--tools", metavar="SET,...", callback=parse_toolsets_option, default="claude", show_default=True, help=_TOOLSETS
)
@http_options(_HTTP)
@errors_option()
@state_option("The folder for the audit log, outside every workspace.")
def mcp(
    *,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    fresh: bool,
    allow_tool: tuple[str, ...],
    exclude_tool: tuple[str, ...],
    tools: Toolsets,
    http: tuple[str, int] | None,
    allow_host: tuple[str, ...],
    errors: ErrorForm | None,
    state: str | None,
) -> None:
    """Serve a workspace over MCP, to one client on stdio or to many over HTTP.

    HTTP requires the bearer token in TOOLYARD_TOKEN; without one, a new token is printed once on stderr.
    """
    context = click.get_current_context()
    resolved = resolve_workspace(workspace, config_file, agent, acts_as_agent=True)
    if fresh or allow_tool or exclude_tool:
        resolved = with_backend_options(resolved, agent, fresh=fresh, allowed=allow_tool, excluded=exclude_tool)
    settings = Settings.from_environment()
    options = YardOptions(
        workspace=resolved.workspace,
        config=resolved.config,
        settings=settings,
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        toolset=tools,
        state_home=state,
        begins_session=True,
        notify=lambda text: click.echo(complete_commands(text, context), err=True),
        errors=errors,
    )
    _warn_uncallable_tools(options)
    if resolved.config.has_servers and not has_code_mode(options.toolset):
        named = ",".join(sets_of(tools))
        click.echo(
            f"MCP servers are configured, but --tools {named} does not reach them; --tools code does.", err=True
        )
    serve(options, http, allow_host)


def _warn_uncallable_tools(options: YardOptions) -> None:
    """Warns about a selection with search_tools but without execute_python: nothing could call the found tools."""
    chosen = options.config.toolyard.in_context_tools
    sets = sets_of(options.toolset)
    if chosen and not chosen.get(_CODE_GROUP) and has_code_mode(sets) and Toolset.MINIMAL not in sets:
        warning = (
            f"in_context_tools leaves out {_CODE_GROUP}: tools that search_tools finds cannot be called from code."
        )
        click.echo(warning, err=True)
