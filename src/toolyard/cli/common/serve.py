"""Serves a workspace from the command line: over stdio to the parent process, or over HTTP to clients with a
token.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from toolyard.app.sandbox_preflight import check_sandbox, check_sandbox_quickly, runs_code
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.param_types import NameChoice
from toolyard.cli.common.process import OWN_PROCESS
from toolyard.core.errors import ErrorForm

if TYPE_CHECKING:
    from toolyard.config.settings import Settings
    from toolyard.transports.mcp.http import ListenAddress

_SHORTEST_TOKEN = 16
_LARGEST_PORT = 65_535


def _parse_address(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, int] | None:
    del context, option
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise click.BadParameter("expected HOST:PORT, such as 127.0.0.1:8765 (port 0 takes a free one)")
    return host.strip("[]"), int(port)


def http_options(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the options `--http` and `--allow-host`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        hosts = click.option(
            "--allow-host", metavar="NAME", multiple=True, help="An additional host name of this server."
        )
        return click.option("--http", metavar="HOST:PORT", callback=_parse_address, help=about)(hosts(command))

    return add


def errors_option() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns the option `--errors`."""

    def parse_form(context: click.Context, option: click.Parameter, value: str | None) -> ErrorForm | None:
        del context, option
        return ErrorForm(value) if value else None

    help_text = (
        "How failed calls are reported: as results for the model, or as JSON-RPC errors.  "
        "[default: result; for the assistant: jsonrpc]"
    )
    return click.option(
        "--errors", type=NameChoice([form.value for form in ErrorForm]), callback=parse_form, help=help_text
    )


def serve(options: YardOptions, http: tuple[str, int] | None, allow_host: tuple[str, ...]) -> None:
    """Serves the workspace until the client disconnects or a signal arrives. Ends the process if it is our own."""
    exits_process = click.get_current_context().find_root().obj is OWN_PROCESS
    with Yard.open(options) as yard:
        _check_sandbox(yard, is_quick=http is None)
        if http is None:
            from toolyard.transports.mcp.serve_stdio import serve_stdio

            if sys.stdin.isatty():
                click.echo("Serving MCP on stdin and stdout: start this from an agent, or use --http.", err=True)
            serve_stdio(yard, exits_after=exits_process)
        else:
            from toolyard.transports.mcp.http import ListenAddress

            _serve_http(yard, options.settings, ListenAddress(*http, allowed_hosts=allow_host))
            if exits_process:
                from toolyard.transports.mcp.serve_stdio import ignore_signals

                ignore_signals()
    if exits_process:
        _exit_process()


def _check_sandbox(yard: Yard, *, is_quick: bool) -> None:
    """Raises SecurityError if served tools run commands or code and the sandbox is not available."""
    options = yard.options
    if options.tool_provider is None and runs_code(yard.dispatch.tools.values()):
        check = check_sandbox_quickly if is_quick else check_sandbox
        check(options.config.toolyard.code_execution, options.settings, yard.policy.mode)


def _exit_process() -> NoReturn:
    """Ends the process after all resources are released.

    A normal exit would first tear down all modules. That takes a third of a second of CPU time, and seconds on a busy
    machine, during which the parent waits.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the process was started with the descriptor closed
            with contextlib.suppress(OSError, ValueError):  # the reader has gone
                stream.flush()
    os._exit(0)


def _serve_http(yard: Yard, settings: Settings, address: ListenAddress) -> None:
    from toolyard.transports.mcp.http import PATH, listen, serve_http

    listener = listen(address)
    host, port = listener.getsockname()[:2]
    host_text = f"[{host}]" if ":" in host else host
    click.echo(f"Serving {yard.mounts.workspace.path} at http://{host_text}:{port}{PATH}", err=True)
    token = settings.token
    if token is None:
        token = secrets.token_urlsafe(32)
        click.echo(f"TOOLYARD_TOKEN={token}", err=True)
    elif len(token) < _SHORTEST_TOKEN:
        warning = f"TOOLYARD_TOKEN has fewer than {_SHORTEST_TOKEN} characters: anyone who can reach this port"
        click.echo(f"{warning} may guess it.", err=True)
    serve_http(yard, token, address, listener)
