"""`toolyard mcp`: serve a workspace to an agent."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import click

from toolyard.app.toolsets import Toolset, Toolsets, has_code_mode, sets_of
from toolyard.app.yard import Yard, YardOptions
from toolyard.cli.choosing import Named, toolsets
from toolyard.cli.opening import find_place
from toolyard.cli.options import agent_option, config_option, state_option, workspace_option
from toolyard.cli.process import OWN_PROCESS
from toolyard.config.settings import Settings
from toolyard.core.modes import PermissionMode

if TYPE_CHECKING:
    from toolyard.serve.mcp.http import Address

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
    "code: search_tools, Python, commands and files, with the MCP servers behind them. minimal: the first two alone. "
    "workspace: snapshots. all: everything. Several with commas: code,workspace."
)
_HTTP = "Serve HTTP instead of stdio: MCP at /mcp, plain requests at /tools and /execute (described at /docs)."
_SHORTEST_TOKEN = 16
_LARGEST_PORT = 65_535
_RUNNING, _PYTHON = "code_execution", "execute_python"  # as `in_context_tools` names them


def _address(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    del context, option
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise click.BadParameter("expected HOST:PORT, such as 127.0.0.1:8765 (port 0 takes a free one)")
    return host.strip("[]"), int(port)


@click.command(epilog=_EXAMPLES)
@config_option()
@workspace_option("The folder to serve.  [default: the current folder]")
@click.option("--permission-mode", type=Named([m.value for m in PermissionMode]), help="[default: strict]")
@agent_option("Which agent of the configuration is served.")
@click.option("--tools", metavar="SET,...", callback=toolsets, default="claude", show_default=True, help=_TOOLSETS)
@click.option("--http", metavar="HOST:PORT", callback=_address, help=_HTTP)
@click.option("--allow-host", metavar="NAME", multiple=True, help="A further name this server is reached by.")
@state_option("Where the audit log is kept, outside every workspace.")
def mcp(
    *,
    config_file: str | None,
    workspace: str | None,
    permission_mode: str | None,
    agent: str | None,
    tools: Toolsets,
    http: tuple[str, int] | None,
    allow_host: tuple[str, ...],
    state: str | None,
) -> None:
    """Serve a workspace over MCP, to one client on stdio or to many over HTTP.

    HTTP asks for the bearer token in TOOLYARD_TOKEN; without one, a fresh token is printed once on stderr.
    """
    place = find_place(workspace, config_file, agent, acts=True)
    settings = Settings.from_environment()
    options = YardOptions(
        workspace=place.workspace,
        config=place.config,
        settings=settings,
        mode=PermissionMode(permission_mode) if permission_mode else None,
        agent=agent,
        toolset=tools,
        state_home=state,
        begins_session=True,
        tell=functools.partial(click.echo, err=True),
    )
    options = _in_context(options)
    if place.config.has_servers and not has_code_mode(options.toolset):
        named = ",".join(sets_of(tools))
        click.echo(f"MCP servers are configured, which --tools {named} does not reach; --tools code does.", err=True)
    leaves = click.get_current_context().find_root().obj is OWN_PROCESS
    with Yard.open(options) as yard:
        if http is None:
            from toolyard.serve.mcp.run import serve_stdio

            if sys.stdin.isatty():
                click.echo("Speaking MCP on stdin and stdout: start this from an agent, or try --http.", err=True)
            serve_stdio(yard, leaves=leaves)
        else:
            from toolyard.serve.mcp.http import Address

            _serve_http(yard, settings, Address(*http, allowed_hosts=allow_host))
            if leaves:
                from toolyard.serve.mcp.run import ignore_signals

                ignore_signals()
    if leaves:
        _leave()


def _in_context(options: YardOptions) -> YardOptions:
    """With `in_context_tools`, the minimal set is those and what it has anyway: what `code` makes of both."""
    section = options.config.toolyard
    if not section.in_context_tools:
        return options
    chosen = sets_of(options.toolset)
    if Toolset.CODE in chosen:
        if not section.in_context_tools.get(_RUNNING):
            told = f"in_context_tools leaves out {_RUNNING}: what search_tools finds cannot be called from code."
            click.echo(told, err=True)
        return options
    if Toolset.MINIMAL not in chosen:
        named = ",".join(chosen)
        told = f"in_context_tools is for --tools code and minimal; --tools {named} serves its own set."
        click.echo(told, err=True)
        return options
    running = section.in_context_tools.get(_RUNNING, ())
    if running != "*" and _PYTHON not in running:
        running = (*running, _PYTHON)
    section = section.model_copy(update={"in_context_tools": {**section.in_context_tools, _RUNNING: running}})
    config = options.config.model_copy(update={"toolyard": section})
    return replace(
        options, config=config, toolset=(Toolset.CODE, *(each for each in chosen if each != Toolset.MINIMAL))
    )


def _leave() -> NoReturn:
    """End the process now that everything it owned is given back.

    The interpreter would first take its modules apart. That is a third of a second of processor time, and seconds on
    a busy machine, during which whoever stopped us waits.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as it is when we were started with the descriptor closed
            with contextlib.suppress(OSError, ValueError):  # nobody listens any more
                stream.flush()
    os._exit(0)


def _serve_http(yard: Yard, settings: Settings, address: Address) -> None:
    from toolyard.serve.mcp.http import PATH, listen, serve_http

    listener = listen(address)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Serving {yard.mounts.workspace.path} at http://{shown}:{port}{PATH}", err=True)
    token = settings.token
    if token is None:
        token = secrets.token_urlsafe(32)
        click.echo(f"TOOLYARD_TOKEN={token}", err=True)
    elif len(token) < _SHORTEST_TOKEN:
        told = f"TOOLYARD_TOKEN has fewer than {_SHORTEST_TOKEN} characters: whoever reaches this port may guess it."
        click.echo(told, err=True)
    serve_http(yard, token, address, listener)
